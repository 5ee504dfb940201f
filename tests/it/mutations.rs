//! Damaged inputs never crash the host; `cargo run -p sconce-tests --bin mutate` tries many more.

use sconce_tests::mutations::{Subject, strike};

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
    try_some(Subject::State, 1000);
}
