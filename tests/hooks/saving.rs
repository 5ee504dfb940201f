//! `save-file`, and the rarer options of `checkpoint`: writing in the background.

use sconce_tests::{Finished, Workplace, artifacts, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-checkpoints",
    "sconce-plugin-csv",
    "sconce-fixture-faults",
];

fn place() -> Workplace {
    Workplace::new(PLUGINS)
}

fn manifest(hooks: Value) -> Value {
    edit(edit(tiny(), "/train/epochs", json!(4)), "/hooks", hooks)
}

fn run(hooks: Value) -> (Workplace, Finished) {
    let place = place();
    let finished = place.run(&manifest(hooks));
    (place, finished)
}

fn checkpoint(config: Value) -> Value {
    json!({"hook": "checkpoint", "config": config})
}

/// The names in `out/checkpoints`, sorted.
fn tags(place: &Workplace) -> Vec<String> {
    let entries = std::fs::read_dir(place.path("out/checkpoints"))
        .into_iter()
        .flatten();
    let mut tags: Vec<String> = entries
        .map(|entry| {
            let name = entry.expect("an entry").file_name();
            name.to_string_lossy().into_owned()
        })
        .collect();
    tags.sort();
    tags
}

/// A checkpoint without the hooks' states, one of which has times.
fn content(place: &Workplace, tag: &str) -> Vec<(String, Vec<u8>)> {
    let all = place.checkpoint(tag).into_iter();
    all.filter(|(name, _)| !name.starts_with("hooks/"))
        .map(|(name, (_, bytes))| (name, bytes))
        .collect()
}

#[test]
fn what_is_written_in_the_background_is_what_would_have_been_written_at_once() {
    for config in [
        json!({"iterations": 2, "last": "last", "keep_last": 2, "best": [{"monitor": "loss", "keep": 2}]}),
        json!({"epochs": 1, "keep_last": 1, "keep_every": 2, "tag": "e{epoch}"}),
        json!({"epochs": 1, "parameters_only": true}),
        json!({"epochs": 3, "tag": "only", "load_best": true, "publish": ["last"],
            "best": [{"monitor": "train/loss", "rule": "greater"}]}),
    ] {
        let mut background = config.clone();
        background["background"] = json!(true);
        let (one, finished) = run(json!([checkpoint(config.clone())]));
        finished.expect(0, &[]);
        let (other, finished) = run(json!([checkpoint(background)]));
        finished.expect(0, &[]);
        assert_eq!(tags(&one), tags(&other), "{config}");
        for tag in tags(&one) {
            if config.get("parameters_only").is_some() {
                let file = format!("out/checkpoints/{tag}/parameters.safetensors");
                let bytes = |place: &Workplace| std::fs::read(place.path(&file)).expect("a file");
                assert_eq!(bytes(&one), bytes(&other), "{config}: {tag}");
            } else {
                assert_eq!(
                    content(&one, &tag),
                    content(&other, &tag),
                    "{config}: {tag}"
                );
            }
        }
        let weights = |place: &Workplace| {
            std::fs::read(place.path("out/weights.safetensors")).expect("weights")
        };
        assert_eq!(weights(&one), weights(&other), "{config}");
    }
}

#[test]
fn a_run_goes_on_from_what_was_written_in_the_background() {
    let hooks = |stop: Value| {
        json!([
            "csv",
            checkpoint(json!({"iterations": 2, "background": true, "keep_last": 2})),
            stop
        ])
    };
    let ask = |what: &str| {
        json!({"hook": "asker", "config": {"at": "after_iter", "phase": "train", "what": what,
            "text": "enough", "after_iteration": 7, "once": true}})
    };
    // What a stop asks for is a part of the run; a publication of nothing is none.
    let (straight, finished) = run(hooks(ask("publish")));
    finished.expect(0, &[]);
    for tag in ["iteration-10", "iteration-12"] {
        assert!(
            tags(&straight).contains(&tag.to_owned()),
            "{:?}",
            tags(&straight)
        );
    }
    let place = place();
    place.run(&manifest(hooks(ask("stop")))).expect(0, &[]);
    // Saved at the stop, after the save at iteration 6.
    assert_eq!(tags(&place), ["iteration-6", "iteration-7", "latest"]);
    place.write(&manifest(hooks(ask("publish"))));
    let arguments = [
        "run",
        "manifest.json",
        "--resume",
        "iteration-6",
        "--allow-changes",
    ];
    place.sconce(&arguments).expect(0, &[]);
    for tag in ["iteration-10", "iteration-12"] {
        assert_eq!(content(&place, tag), content(&straight, tag), "{tag}");
    }
    assert_eq!(place.read("out/val.csv"), straight.read("out/val.csv"));
}

#[test]
fn a_save_in_the_background_that_fails_is_told_as_any_other() {
    let limited = |config: Value| {
        let place = place();
        place.write(&manifest(json!([checkpoint(config)])));
        let script = format!(
            "trap '' XFSZ; ulimit -f 16; exec '{}' run manifest.json",
            artifacts().sconce().display()
        );
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .current_dir(place.directory())
            .env("NO_COLOR", "1")
            .env_remove("SCONCE_PLUGIN_PATH")
            .output()
            .expect("it can be started");
        (place, Finished::from(output))
    };
    let config = json!({"background": true, "keep_last": 1});
    let (place, finished) = limited(config.clone());
    let words: Vec<String> = (1..=4)
        .map(|epoch| format!("the checkpoint `epoch-{epoch}` is not saved"))
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    for word in &words {
        assert!(
            finished.stderr.contains(word),
            "{word}: {}",
            finished.stderr
        );
    }
    assert!(tags(&place).is_empty(), "{:?}", tags(&place));
    let mut strict = config;
    strict["on_failure"] = json!("error");
    let (_, finished) = limited(strict);
    finished.expect(4, &["hook `checkpoint` failed", words[0]]);
}
