//! Hooks in C and C++: they train as those in Rust do, and their failures are reported as theirs are.

use std::path::Path;

use sconce_tests::{Finished, Workplace, edit, tiny, workspace};
use serde_json::{Value, json};

const CLIP: &str = "examples/clip-in-c/clip.c";
const FAULTY: &str = "tests/c/faulty.c";
const THROWER: &str = "tests/c/thrower.cpp";

/// A run of four epochs that saves a checkpoint after each.
fn with_hooks(hooks: Value) -> Value {
    let manifest = edit(tiny(), "/hooks", hooks);
    edit(manifest, "/train/epochs", json!(4))
}

fn weights(place: &Workplace) -> Vec<u8> {
    std::fs::read(place.path("out/weights.safetensors")).expect("the run's weights")
}

/// Runs the faulty hook; `None` where there is no compiler.
fn faulty(how: &str) -> Option<Finished> {
    let place = Workplace::new(&[]);
    place.add_c_plugin(FAULTY, &[])?;
    let hook = json!({"hook": "faulty", "name": "bad", "config": {"how": how}});
    Some(place.run(&edit(tiny(), "/hooks", json!([hook]))))
}

#[test]
fn clipping_in_c_and_in_rust_ends_in_the_same_weights() {
    let run = |hook: Value| {
        let place = Workplace::new(&["sconce-plugin-optimisation"]);
        place.add_c_plugin(CLIP, &[])?;
        // Wide enough that a gradient is summed up in several chunks.
        let manifest = edit(with_hooks(json!([hook])), "/model/hidden", json!([48]));
        place.run(&manifest).expect(0, &[]);
        Some(weights(&place))
    };
    let config = json!({"max_norm": 0.5});
    let Some(in_c) = run(json!({"hook": "clip", "config": config})) else {
        return;
    };
    let in_rust = run(json!({"hook": "grad-clip", "config": config}));
    assert!(in_rust.is_some_and(|in_rust| in_rust == in_c));
    let unclipped = run(json!({"hook": "clip", "config": {"max_norm": 1e9}}));
    assert!(
        unclipped.is_some_and(|unclipped| unclipped != in_c),
        "it clips"
    );
}

#[test]
fn the_state_of_a_hook_in_c_is_saved_and_resumed() {
    let place = Workplace::new(&["sconce-plugin-checkpoints"]);
    if place.add_c_plugin(CLIP, &[]).is_none() {
        return;
    }
    let clip = json!({"hook": "clip", "config": {"max_norm": 0.5}});
    let manifest = with_hooks(json!([clip, "checkpoint"]));
    place
        .run(&manifest)
        .expect(0, &["clip: clipped 12 of 12 updates"]);
    let whole = weights(&place);
    let first = edit(manifest.clone(), "/train/epochs", json!(2));
    std::fs::remove_dir_all(place.path("out")).expect("the run's directory");
    place
        .run(&first)
        .expect(0, &["clip: clipped 6 of 6 updates"]);
    place.write(&manifest);
    let resumed = place.sconce(&["run", "manifest.json", "--resume"]);
    resumed.expect(0, &["clip: clipped 12 of 12 updates"]);
    assert!(
        weights(&place) == whole,
        "the same bits as without the interruption"
    );
}

#[test]
fn a_crash_in_c_names_hook_and_library() {
    for (how, signal) in [("segv", "SIGSEGV"), ("abort", "SIGABRT")] {
        let Some(finished) = faulty(how) else {
            return;
        };
        let crashed =
            format!("hook `bad` crashed ({signal}) at `after_iter` (train), epoch 0, iteration 1");
        finished.expect(5, &[&crashed, "in plugin plugins/libfaulty.so"]);
    }
}

#[test]
fn failures_in_c_are_reported_with_message_and_place() {
    for (how, words) in [
        (
            "error",
            &[
                "hook `bad` failed at `after_iter` (train)",
                ": it failed as told\n",
                "faulty.c:",
            ][..],
        ),
        (
            "silent",
            &["failed at `after_iter`", ": it gave no message\n"],
        ),
        (
            "unknown-status",
            &["(status 77, which this host doesn't know)"],
        ),
        (
            "passed-on",
            &["failed at `after_iter`", "no such parameter"],
        ),
    ] {
        let Some(finished) = faulty(how) else {
            return;
        };
        let finished = finished.expect(4, words);
        assert!(
            finished.stderr.contains("in plugin plugins/libfaulty.so"),
            "{how}"
        );
    }
}

#[test]
fn a_message_that_a_success_leaves_is_not_the_next_hooks() {
    let place = Workplace::new(&[]);
    if place.add_c_plugin(FAULTY, &[]).is_none() {
        return;
    }
    let hook =
        |name: &str, how: &str| json!({"hook": "faulty", "name": name, "config": {"how": how}});
    let hooks = json!([hook("first", "leftover"), hook("second", "silent")]);
    let finished = place.run(&edit(tiny(), "/hooks", hooks));
    let finished = finished.expect(4, &["hook `second` failed", ": it gave no message\n"]);
    assert!(
        !finished.stderr.contains("left over"),
        "{}",
        finished.stderr
    );
    assert!(!finished.stderr.contains("faulty.c"), "{}", finished.stderr);
}

#[test]
fn configurations_are_checked_by_the_schema_and_by_the_hook() {
    let place = Workplace::new(&[]);
    if place.add_c_plugin(CLIP, &[]).is_none() || place.add_c_plugin(FAULTY, &[]).is_none() {
        return;
    }
    for (hook, config, words) in [
        (
            "clip",
            json!({"max_norm": 0}),
            &["at hooks[0].config.max_norm"][..],
        ),
        (
            "clip",
            json!({"max_nrm": 1}),
            &["did you mean `max_norm`?", "at hooks[0].config"],
        ),
        (
            "clip",
            json!({"max_norm": "1"}),
            &["at hooks[0].config.max_norm"],
        ),
    ] {
        let entry = json!([{"hook": hook, "config": config}]);
        place.run(&edit(tiny(), "/hooks", entry)).expect(2, words);
    }
    let entry = json!([{"hook": "faulty", "config": {"how": "refuse"}}]);
    let words = [
        "the configuration of `faulty`: refused as told",
        "at hooks[0].config.how",
    ];
    place.run(&edit(tiny(), "/hooks", entry)).expect(3, &words);
}

#[test]
fn a_mount_point_under_another_ones_name_is_warned_of() {
    let place = Workplace::new(&[]);
    let flag = "-DAT=SCONCE_AT(AFTER_ITER, \"after_epoch\")";
    if place.add_c_plugin(FAULTY, &[flag]).is_none() {
        return;
    }
    place.write(&edit(tiny(), "/hooks", json!(["faulty"])));
    let words = "warning: the metadata of the hook `faulty` calls the mount point 8 `after_epoch`, it is `after_iter`";
    for command in ["check", "run"] {
        place
            .sconce(&[command, "manifest.json"])
            .expect(0, &[words]);
    }
}

#[test]
fn metadata_with_an_unknown_name_or_without_a_comma_is_quoted() {
    for flag in [
        "-DAT=SCONCE_AT(AFTER_TEA, \"after_tea\")",
        "-DAT=SCONCE_AT(AFTER_ITER, \"after_iter\") SCONCE_AT(AFTER_RUN, \"after_run\")",
    ] {
        let place = Workplace::new(&[]);
        let Some(library) = place.add_c_plugin(FAULTY, &[flag]) else {
            return;
        };
        let words = ["at line 1 column ", ", in `…", "are separated by \",\""];
        place
            .sconce(&["inspect", &library.to_string_lossy()])
            .expect(3, &words);
    }
}

#[test]
fn what_the_entry_must_not_return_is_refused() {
    for (entry, words) in [
        (
            "-DENTRY=0",
            "its function `sconce_c_plugin_v1` returned null",
        ),
        ("-DENTRY=1", "returned a plugin without `create`"),
        ("-DENTRY=2", "it speaks another ABI: epoch 2"),
        (
            "-DENTRY=3",
            "answered that it created the hook, but handed over none",
        ),
    ] {
        let place = Workplace::new(&[]);
        if place.add_c_plugin(FAULTY, &[entry]).is_none() {
            return;
        }
        let finished = place.run(&edit(tiny(), "/hooks", json!(["faulty"])));
        finished.expect(3, &[words, "libfaulty.so"]);
    }
}

/// Replaces bytes of a file, wherever they are.
fn patch(file: &Path, old: &[u8], new: &[u8]) {
    let mut bytes = std::fs::read(file).expect("a library");
    let found = (0..bytes.len() - old.len()).filter(|&at| &bytes[at..at + old.len()] == old);
    let found: Vec<usize> = found.collect();
    assert!(!found.is_empty(), "{}", String::from_utf8_lossy(old));
    for at in found {
        bytes[at..at + new.len()].copy_from_slice(new);
    }
    std::fs::write(file, bytes).expect("written");
}

#[test]
fn a_host_without_the_extension_refuses_and_says_why() {
    let place = Workplace::new(&[]);
    let Some(library) = place.add_c_plugin(CLIP, &[]) else {
        return;
    };
    patch(
        &library,
        b"\"requires\":[\"sconce.c/1\"]",
        b"\"requires\":[\"sconce.c/9\"]",
    );
    let finished = place.run(&edit(tiny(), "/hooks", json!(["clip"])));
    let words = [
        "`clip` requires the extension `sconce.c/9`, which this host",
        "lacks",
        "update this host",
    ];
    finished.expect(3, &words);
}

#[test]
fn a_library_without_the_entry_is_told_what_c_needs() {
    let place = Workplace::new(&[]);
    if place
        .add_c_plugin(FAULTY, &["-Dsconce_c_plugin_v1=misspelt"])
        .is_none()
    {
        return;
    }
    let finished = place.run(&edit(tiny(), "/hooks", json!(["faulty"])));
    finished.expect(
        3,
        &["it has no root module", "in C, define `sconce_c_plugin_v1`"],
    );
}

#[test]
fn exceptions_in_cpp_are_failures_or_panics_of_the_hook() {
    for (what, code, words) in [
        ("", 0, &[][..]),
        (
            "error",
            4,
            &[
                "hook `thrower` failed at `after_iter`",
                ": it failed as told\n",
            ],
        ),
        (
            "standard",
            4,
            &[
                "hook `thrower` panicked at `after_iter`",
                ": beyond the end\n",
            ],
        ),
        (
            "other",
            4,
            &[
                "hook `thrower` panicked",
                ": an exception that is not a std::exception\n",
            ],
        ),
        ("host", 4, &["hook `thrower` failed", "fc9"]),
        (
            "config",
            3,
            &[
                "the configuration of `thrower`: refused as told",
                "at hooks[0].config.what",
            ],
        ),
    ] {
        let place = Workplace::new(&[]);
        if place
            .add_c_plugin(THROWER, &["-fvisibility=hidden"])
            .is_none()
        {
            return;
        }
        let hook = json!({"hook": "thrower", "config": {"what": what}});
        place
            .run(&edit(tiny(), "/hooks", json!([hook])))
            .expect(code, words);
    }
}

#[test]
fn languages_are_shown() {
    let place = Workplace::new(&["sconce-plugin-csv"]);
    let Some(library) = place.add_c_plugin(CLIP, &[]) else {
        return;
    };
    let listed = place.sconce(&["plugins", "plugins"]).expect(0, &[]).stdout;
    assert!(listed.contains("clip 0.1.0 (C) in plugins"), "{listed}");
    assert!(!listed.contains("(Rust)"), "{listed}");
    let library = library.to_string_lossy().into_owned();
    let shown = place.sconce(&["inspect", &library]).expect(0, &[]).stdout;
    for words in [
        "language    C",
        "before_update, after_run",
        "publishes   grad_norm",
        "requires    sconce.c/1",
    ] {
        let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = shown
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert!(
            lines.iter().any(|shown| shown.contains(&line)),
            "no {line:?} in {shown}"
        );
    }
    assert!(!shown.contains("panics"), "{shown}");
}

#[test]
fn the_headers_are_printed_as_they_are() {
    let place = Workplace::new(&[]);
    for (language, file) in [("c", "sconce.h"), ("c++", "sconce.hpp")] {
        let printed = place.sconce(&["header", language]).expect(0, &[]).stdout;
        let kept = workspace().join("plugin-api/include").join(file);
        assert!(
            printed == std::fs::read_to_string(kept).expect("a header"),
            "{file}"
        );
    }
    place.sconce(&["header", "cobol"]).expect(2, &["c++"]);
}
