//! The tables of what is legal where, in the mount-point page and in the rustdoc of `Hook`, are those of the code.
//!
//! `UPDATE_EXPECT=1 cargo test -p sconce-tests --test it legal_table` rewrites them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use sconce_plugin_api::ext::{Collection, Request};
use sconce_plugin_api::{Phase, Point};
use sconce_tests::generated::assert_file;
use sconce_tests::workspace;

const BEGIN: &str = "<!-- what is legal where -->\n";
const END: &str = "<!-- end -->";

/// The points, those between iterations in two words where all of them are there.
fn listed(points: &[Point]) -> String {
    let between = [
        Point::BeforeRun,
        Point::BeforeLoop,
        Point::BeforeEpoch,
        Point::BeforeIter,
        Point::AfterIter,
        Point::AfterEpoch,
        Point::AfterCycle,
        Point::AfterLoop,
    ];
    let is_between = between.iter().all(|point| points.contains(point));
    let rest = points
        .iter()
        .filter(|point| !(is_between && between.contains(point)));
    let mut words: Vec<String> = rest.map(|point| format!("`{}`", point.name())).collect();
    if is_between {
        words.insert(0, "between iterations".to_owned());
    }
    words.join(", ")
}

/// Where a request is legal, in words.
fn places(request: Request) -> String {
    let at = |phase| -> Vec<Point> {
        let points = Point::ALL.iter().copied();
        points
            .filter(|point| request.is_legal_at(*point, phase))
            .collect()
    };
    let (training, evaluation) = (at(Phase::Train), at(Phase::Val));
    let never: Vec<Point> = Point::ALL
        .iter()
        .copied()
        .filter(|point| !training.contains(point))
        .collect();
    if training.is_empty() {
        return "creation alone".to_owned();
    }
    let words = if never.len() <= 2 {
        format!("everywhere but {}", listed(&never))
    } else {
        listed(&training)
    };
    if training == evaluation {
        return words;
    }
    if evaluation.is_empty() {
        return format!("{words}; in training alone");
    }
    format!("{words}; in validations and tests {}", listed(&evaluation))
}

/// The two tables.
fn tables() -> String {
    let mut by_places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for request in Request::ALL {
        by_places
            .entry(places(request))
            .or_default()
            .push(request.name());
    }
    let mut text = String::from("| request | legal at |\n|---|---|\n");
    for (places, requests) in &by_places {
        let names: Vec<String> = requests.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "| {} | {places} |", names.join(", "));
    }
    text.push_str("\n\"Between iterations\" are `before_run`, `before_loop`, `before_epoch`, `before_iter`, `after_iter`, `after_epoch`, `after_cycle` and `after_loop`.\n\n");
    text.push_str("| what may be changed in place | at |\n|---|---|\n");
    for (what, collection, name) in [
        (
            "parameters and buffers",
            Collection::Parameters,
            "fc.weight",
        ),
        ("gradients", Collection::Gradients, "fc.weight"),
        ("the batch's inputs", Collection::Batch, "inputs"),
        ("the outputs", Collection::Batch, "outputs"),
    ] {
        let points: Vec<Point> = Point::ALL
            .iter()
            .copied()
            .filter(|point| collection.why_not_changed_at(name, Some(*point)).is_none())
            .collect();
        let _ = writeln!(text, "| {what} | {} |", listed(&points));
    }
    text
}

#[test]
fn the_tables_of_what_is_legal_where_are_those_of_the_code() {
    let tables = tables();
    let page = workspace().join("docs/mount-points.md");
    let written = fs::read_to_string(&page).expect("the page");
    let (before, rest) = written.split_once(BEGIN).expect("the mark");
    let (_, after) = rest.split_once(END).expect("the end");
    let included = workspace().join("plugin-api/src/ext/requests/legal.md");
    for (path, expected) in [
        (page, format!("{before}{BEGIN}\n{tables}\n{END}{after}")),
        (included, tables),
    ] {
        assert_file(path, &expected);
    }
}
