//! What the macros write is what the API says.

use sconce::plugin::inspect;
use sconce_plugin_api::{HookKind, Point, prelude::*};
use sconce_tests::artifacts;

struct Small;

#[hook(
    name = "small",
    about = "Has \"quotes\" and a back\\slash.",
    priority = LOWER,
    publishes = ["a", "b"],
    requires = ["sconce.metrics/1"]
)]
impl Hook for Small {
    fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Small)
    }

    fn after_iter(&mut self, _task: &mut AfterIter<'_>) -> Result<()> {
        Ok(())
    }

    fn before_run(&mut self, _task: &mut BeforeRun<'_>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn the_metadata_says_what_stands_in_the_block() {
    let metadata: sconce_plugin_api::metadata::HookMetadata =
        serde_json::from_str(Small::METADATA).expect("it is JSON");
    assert_eq!(metadata.name, "small");
    assert_eq!(metadata.about, "Has \"quotes\" and a back\\slash.");
    assert_eq!(metadata.priority, Priority::LOWER.value());
    assert_eq!(metadata.publishes, ["a", "b"]);
    assert_eq!(metadata.requires, ["sconce.metrics/1"]);
    let points: Vec<&str> = metadata
        .points
        .iter()
        .map(|point| point.name.as_str())
        .collect();
    assert_eq!(points, ["before_run", "after_iter"]);
}

#[test]
fn the_macros_points_are_the_apis() {
    // The recorder overrides every method there is.
    let plugin = inspect(&artifacts().plugin("sconce-fixture-recorder")).expect("it is right");
    let hook = plugin.hook("recorder").expect("it has one");
    assert_eq!(hook.points.len(), Point::ALL.len());
    for point in &hook.points {
        let known = Point::from_number(point.number).expect("the number is known");
        assert_eq!(known.name(), point.name);
    }
}

#[test]
fn the_metadata_section_survives_in_every_plugin() {
    for package in [
        "sconce-plugin-console",
        "sconce-plugin-csv",
        "sconce-plugin-stop-after",
        "sconce-fixture-faults",
    ] {
        let plugin = inspect(&artifacts().plugin(package)).expect(package);
        assert_eq!(plugin.metadata.name, package);
        assert_eq!(plugin.metadata.panic, "unwind");
        assert!(plugin.metadata.rustc.starts_with("rustc "));
    }
}
