//! Damaged inputs never crash the host; `cargo run -p sconce-tests --bin mutate` tries many more.

use sconce_tests::mutations::{HOOKS, Subject, strike};
use sconce_tests::workspace;

/// Some damage is harmless, most is not.
fn try_some(subject: Subject, count: u64) {
    let accepted = strike(subject, 7, count);
    assert!(accepted < count, "{subject:?}: everything is accepted");
}

#[test]
fn manifests() {
    try_some(Subject::Manifest, 400);
}

#[test]
fn plugins_and_what_they_say_of_themselves() {
    try_some(Subject::Plugin, 60);
    try_some(Subject::Metadata, 60);
}

#[test]
fn checkpoints() {
    try_some(Subject::Checkpoint, 1500);
}

#[test]
fn data_files_and_weights() {
    try_some(Subject::Idx, 1000);
    try_some(Subject::Csv, 1000);
    try_some(Subject::Safetensors, 1000);
}

#[test]
fn states_of_hooks() {
    try_some(Subject::State, 2500);
}

#[test]
fn counters_of_checkpoints() {
    try_some(Subject::Counters, 400);
}

/// Who gives a hook a state has it damaged here.
#[test]
fn every_hook_with_a_state_is_among_those_that_are_tried() {
    let mut open = vec![workspace().join("plugins")];
    let mut found = 0;
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).expect("entries").flatten() {
            let path = entry.path();
            // States of hooks in Python are those of their own classes; the plugin's tests damage them. Hooks that learn without
            // labels run on views, which the task here has none of; their states are sums, rows, and a place in a queue.
            let is_tried = !["plugins/python", "plugins/self-supervised"]
                .iter()
                .any(|end| path.ends_with(end));
            if path.is_dir() && !is_tried {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(path).expect("a source");
                let by_hand = text.matches("fn load_state(").count();
                let named = text.lines().filter(|line| line.starts_with("    state = "));
                found += by_hand + named.count();
            }
        }
    }
    assert_eq!(
        found,
        HOOKS.len(),
        "the table `HOOKS` in tests/src/mutations/states.rs"
    );
}
