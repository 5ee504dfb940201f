//! `check`, `plugins`, `inspect`: what they print.

use sconce_tests::{Workplace, edit, tiny};
use serde_json::json;

#[test]
fn check_prints_the_manifest_in_short_and_the_order_of_hooks() {
    let place = Workplace::new(&[
        "sconce-plugin-console",
        "sconce-plugin-csv",
        "sconce-plugin-stop-after",
    ]);
    let hooks = json!([
        {"hook": "stop-after", "config": {"epochs": 1}},
        {"hook": "csv", "priority": "HIGH", "phases": ["val"]},
        "console"
    ]);
    place.write(&edit(tiny(), "/hooks", hooks));
    let finished = place.sconce(&["check", "manifest.json"]).expect(0, &[]);
    for words in [
        "`tiny` in out",
        "6370 parameters",
        "24 samples",
        "after_epoch [train, test, predict]: console (LOW)",
        "after_epoch [val]: csv (HIGH), console (LOW)",
        "after_cycle: stop-after (LOWEST)",
    ] {
        assert!(
            finished.stdout.contains(words),
            "no {words:?} in:\n{}",
            finished.stdout
        );
    }
    assert!(!place.path("out").exists(), "a check makes nothing");
}

#[test]
fn check_finds_what_a_run_would() {
    let place = Workplace::new(&[]);
    place.write(&edit(tiny(), "/hooks", json!(["console"])));
    place
        .sconce(&["check", "manifest.json"])
        .expect(3, &["no plugin has a hook `console`"]);
}

#[test]
fn plugins_lists_hooks_and_refused_files() {
    let place = Workplace::new(&["sconce-plugin-console", "sconce-fixture-faults"]);
    let finished = place.sconce(&["plugins", "plugins"]).expect(0, &[]);
    for words in [
        "console",
        "LOW",
        "sconce-fixture-faults",
        "asker",
        "Fails where it is told to.",
    ] {
        assert!(
            finished.stdout.contains(words),
            "no {words:?} in:\n{}",
            finished.stdout
        );
    }
    std::fs::write(place.path("plugins/cut.so"), b"\x7fELF\x02\x01\x01").expect("written");
    let finished = place
        .sconce(&["plugins", "plugins"])
        .expect(3, &["plugins/cut.so"]);
    assert!(
        finished.stdout.contains("console"),
        "the others are listed all the same"
    );
    place
        .sconce(&["plugins", "nowhere"])
        .expect(2, &["`nowhere` can't be searched"]);
}

#[test]
fn inspect_shows_what_a_library_has() {
    let place = Workplace::new(&["sconce-fixture-faults"]);
    let library = place.add_plugin("sconce-fixture-faults", "elsewhere");
    let finished = place
        .sconce(&["inspect".as_ref(), library.as_os_str()])
        .expect(0, &[]);
    for words in [
        "sconce-fixture-faults 0.1.0",
        "A plugin for Sconce's own tests.",
        "rustc ",
        "unwind",
        "1.0.0 (ABI epoch 1)",
        "fault",
        "publishes  wrong",
        "before_run, after_run, before_loop",
    ] {
        assert!(
            finished.stdout.contains(words),
            "no {words:?} in:\n{}",
            finished.stdout
        );
    }
    place
        .sconce(&["inspect", "manifest.json"])
        .expect(3, &["is refused: it can't be read"]);
}
