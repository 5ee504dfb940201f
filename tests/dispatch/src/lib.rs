//! Hooks of a plugin outside any run. A package of its own, so that `dispatch-calls` is built
//! against the host that is released and not against the tests' with its further features.
#![allow(
    clippy::expect_used,
    reason = "a test that finds its machine broken may say so by panicking"
)]

use std::path::{Path, PathBuf};

use sconce::bridge::{self, BridgeState};
use sconce::dispatch::{Dispatcher, HookSpec, LoadedHook};
use sconce::plugin::entry_error::EntryError;
use sconce::plugin::inspect;
use sconce::plugin::instance::HookInstance;
use sconce::plugin::library::Library;
use sconce_plugin_api::abi::{SetupAbi, TextAbi};
use sconce_plugin_api::{Point, Priority};

/// A setup for hooks outside any manifest.
pub fn setup(name: &str, shared: &BridgeState<'_>) -> SetupAbi {
    SetupAbi {
        host: std::ptr::from_ref(bridge::root()),
        context: shared.context(),
        name: TextAbi::new(name),
        run_directory: TextAbi::new("."),
        manifest: TextAbi::new("{}"),
        seed: 0,
    }
}

/// A hook of an opened plugin, outside any run.
///
/// # Errors
///
/// What the plugin says against it.
pub fn create(
    library: &Library,
    kind: &str,
    config: &str,
    shared: &BridgeState<'_>,
) -> Result<HookInstance, EntryError> {
    HookInstance::create(library, kind, config, &setup(kind, shared))
}

/// A dispatcher over so many no-op hooks of the fixture plugin in `library`.
///
/// # Panics
///
/// Where the plugin can't be loaded.
pub fn noop_hooks_of(library: &Path, count: usize, shared: &BridgeState<'_>) -> Dispatcher {
    let metadata = inspect(library).expect("the plugin is right").metadata;
    let kind = metadata.hooks.first().expect("it has a hook").clone();
    let points = kind
        .points
        .iter()
        .filter_map(|point| Point::from_number(point.number));
    let points: Vec<Point> = points.collect();
    let opened = Library::open(library).expect("the plugin can be opened");
    let hooks = (0..count).map(|index| {
        let name = format!("noop-{index}");
        let instance = create(&opened, &kind.name, "{}", shared).expect("it is created");
        let spec = HookSpec {
            name: name.clone(),
            kind: kind.name.clone(),
            plugin: metadata.name.clone(),
            library: PathBuf::from(library),
            priority: Priority::NORMAL,
            points: points.clone(),
            ..HookSpec::default()
        };
        LoadedHook::new(spec, instance)
    });
    Dispatcher::new(hooks.collect())
}
