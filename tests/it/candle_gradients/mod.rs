//! What candle's own operations do to gradients: `docs/candle-gradients.md` says it, and is up to date.

mod core;
mod nn;
mod table;

use sconce::gradients::{CUTS, WRONG};
use sconce_tests::generated::assert_file;
use sconce_tests::workspace;
use table::{Operations, Row};

/// The version of candle that is built here, from the lock file.
fn candle_version() -> String {
    let lock = std::fs::read_to_string(workspace().join("Cargo.lock")).expect("Cargo.lock");
    let version = |package: &str| {
        let (_, rest) = lock
            .split_once(&format!("name = \"{package}\"\nversion = \""))
            .expect(package);
        rest.split('"').next().expect("a version").to_owned()
    };
    assert_eq!(version("candle-core"), version("candle-nn"));
    version("candle-core")
}

#[test]
fn the_page_says_which_of_candles_gradients_are_right() {
    let mut operations = Operations::default();
    core::add(&mut operations);
    nn::add(&mut operations);
    let sections = operations.rows();
    let page = table::page(&candle_version(), &sections);
    let file = workspace().join("docs/candle-gradients.md");
    let rows: Vec<&Row> = sections.iter().flat_map(|(_, rows)| rows).collect();
    for row in &rows {
        assert!(
            row.is_right() || !row.instead.is_empty(),
            "{}: {}; what to use instead?",
            row.name,
            row.verdict
        );
    }
    // What the gradient audit suspects is what cuts gradients here.
    for cut in CUTS {
        let is_known = rows
            .iter()
            .any(|row| row.verdict.contains("cut silently") && row.name.contains(cut.operation));
        assert!(is_known, "{} cuts no gradient", cut.operation);
    }
    for wrong in WRONG {
        let is_known = rows
            .iter()
            .any(|row| row.verdict.contains("wrong") && row.name.contains(wrong.operation));
        assert!(is_known, "{} has right gradients", wrong.operation);
    }
    assert_file(file, &page);
}
