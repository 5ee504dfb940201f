//! The `checkpoint` hook: which checkpoints there are after a run.

use std::fs;
use std::process::Command;

use sconce_tests::{Finished, Workplace, artifacts, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-checkpoints",
    "sconce-plugin-optimisation",
    "sconce-plugin-stop-after",
    "sconce-fixture-faults",
    "sconce-fixture-recorder",
];

/// Six epochs of three iterations.
fn manifest(hooks: Value) -> Value {
    edit(edit(tiny(), "/train/epochs", json!(6)), "/hooks", hooks)
}

fn run(hooks: Value) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let finished = place.run(&manifest(hooks));
    (place, finished)
}

fn checkpoint(config: Value) -> Value {
    json!({"hook": "checkpoint", "config": config})
}

/// The tags that there are, in their order.
fn tags(place: &Workplace) -> Vec<String> {
    files(place, "out/checkpoints")
        .into_iter()
        .filter(|name| name != "latest" && !name.starts_with('.'))
        .collect()
}

fn files(place: &Workplace, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(place.path(directory)).into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_saved_and_kept_follows_from_the_options() {
    for (config, expected) in [
        (
            json!({}),
            vec![
                "epoch-1", "epoch-2", "epoch-3", "epoch-4", "epoch-5", "epoch-6",
            ],
        ),
        (json!({"epochs": 2}), vec!["epoch-2", "epoch-4", "epoch-6"]),
        // The end is saved too, unless one minds.
        (json!({"epochs": 4}), vec!["epoch-4", "epoch-6"]),
        (json!({"epochs": 4, "save_last": false}), vec!["epoch-4"]),
        (
            json!({"epochs": 2, "begin_epoch": 3}),
            vec!["epoch-4", "epoch-6"],
        ),
        (json!({"keep_last": 2}), vec!["epoch-5", "epoch-6"]),
        (
            json!({"keep_last": 1, "keep_every": 2}),
            vec!["epoch-2", "epoch-4", "epoch-6"],
        ),
        (
            json!({"iterations": 7}),
            vec!["iteration-14", "iteration-18", "iteration-7"],
        ),
        (
            json!({"iterations": 7, "begin_iteration": 8, "save_last": false}),
            vec!["iteration-14"],
        ),
        (
            json!({"iterations": 10, "epochs": 3}),
            vec!["epoch-3", "epoch-6", "iteration-10"],
        ),
        (
            json!({"epochs": 3, "tag": "e{epoch:2}_i{iteration}_u{update}"}),
            vec!["e03_i9_u9", "e06_i18_u18"],
        ),
        (
            json!({"epochs": 3, "last": "last"}),
            vec!["epoch-3", "epoch-6", "last"],
        ),
        (
            json!({"keep_last": 1, "last": "last"}),
            vec!["epoch-6", "last"],
        ),
        (json!({"tag": "only"}), vec!["only"]),
        // Every iteration lasts longer than that.
        (
            json!({"minutes": 1e-12, "keep_last": 2}),
            vec!["iteration-17", "iteration-18"],
        ),
        (json!({"minutes": 1000}), vec!["iteration-18"]),
    ] {
        let (place, finished) = run(json!([checkpoint(config.clone())]));
        finished.expect(0, &[]);
        assert_eq!(tags(&place), expected, "{config}");
    }
}

/// The validation loss after each epoch, as the recorder saw it.
fn losses(place: &Workplace, phase: &str) -> Vec<f64> {
    let loss = |call: &Value| {
        let metrics = call["metrics"].as_array()?;
        metrics.iter().find(|metric| metric[0] == "loss")?[1].as_f64()
    };
    let calls = place.records("record.jsonl");
    let ends = calls
        .iter()
        .filter(|call| call["point"] == "after_epoch" && call["phase"] == phase);
    ends.filter_map(loss).collect()
}

/// The epochs (from 1) of the best values, the best first.
fn best(values: &[f64], keep: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    order.iter().take(keep).map(|index| index + 1).collect()
}

/// A training whose losses go up and down.
fn wild(hooks: Value) -> (Workplace, Vec<f64>) {
    let place = Workplace::new(PLUGINS);
    let manifest = edit(manifest(hooks), "/optimizer/learning_rate", json!(1.5));
    place.run(&manifest).expect(0, &[]);
    let losses = losses(&place, "val");
    assert_eq!(losses.len(), 6);
    (place, losses)
}

#[test]
fn the_best_by_several_metrics_are_kept_beside_the_others() {
    let all = checkpoint(json!({"tag": "all-{epoch}"}));
    let config = json!({"best": [
        {"monitor": "loss", "keep": 2},
        {"monitor": "train/loss", "tag": "top"},
        {"monitor": "val/accuracy", "rule": "less", "tag": "worst-{metric}"},
    ], "save_last": false, "epochs": 0});
    let best_of = json!({"hook": "checkpoint", "name": "best", "config": config});
    let (place, losses) = wild(json!([all, best_of, "recorder"]));
    let mut expected: Vec<String> = best(&losses, 2)
        .iter()
        .map(|epoch| format!("best-loss-epoch-{epoch}"))
        .collect();
    expected.extend((1..=6).map(|epoch| format!("all-{epoch}")));
    expected.extend(["top".to_owned(), "worst-val-accuracy".to_owned()]);
    expected.sort();
    assert_eq!(tags(&place), expected, "{losses:?}");
    for epoch in best(&losses, 2) {
        let kept = place.checkpoint(&format!("best-loss-epoch-{epoch}"));
        let then = place.checkpoint(&format!("all-{epoch}"));
        assert_eq!(kept["parameters/fc1.weight"], then["parameters/fc1.weight"]);
    }
}

#[test]
fn a_threshold_and_the_beginning_hold_for_the_best_too() {
    for config in [
        json!({"best": [{"monitor": "loss", "threshold": 0.0}], "save_last": false, "epochs": 0}),
        json!({"best": [{"monitor": "loss"}], "begin_epoch": 7, "save_last": false, "epochs": 0}),
    ] {
        let (place, finished) = run(json!([checkpoint(config.clone())]));
        finished.expect(0, &[]);
        assert!(tags(&place).is_empty(), "{config}");
    }
}

#[test]
fn a_validation_that_was_not_is_not_the_best_again() {
    let place = Workplace::new(PLUGINS);
    let config = json!({"best": [{"monitor": "loss", "keep": 9}], "save_last": false, "epochs": 0});
    let manifest = manifest(json!([checkpoint(config)]));
    place
        .run(&edit(manifest, "/train/validate_every", json!(3)))
        .expect(0, &[]);
    assert_eq!(tags(&place), ["best-loss-epoch-3", "best-loss-epoch-6"]);
}

#[test]
fn at_the_end_the_best_is_loaded_and_published_with_its_hash() {
    let config = json!({"best": [{"monitor": "loss"}], "load_best": true,
        "publish": ["best", "last"], "set": null});
    let (place, losses) = wild(json!([checkpoint(config), "recorder"]));
    let weights = fs::read(place.path("out/weights.safetensors")).expect("weights");
    let weights = safetensors::SafeTensors::deserialize(&weights).expect("a file");
    let kept = place.checkpoint("best-loss");
    assert!(!weights.is_empty());
    for (name, view) in weights.tensors() {
        assert_eq!(view.data(), kept[&format!("parameters/{name}")].1, "{name}");
    }
    let published = files(&place, "out/published");
    assert_eq!(published.len(), 2, "{published:?} {losses:?}");
    for file in published {
        let (tag, hash) = file.rsplit_once('-').expect("a hash");
        let path = format!("out/published/{file}");
        let bytes = fs::read(place.path(&path)).expect("it is there");
        assert_eq!(hash, format!("{}.safetensors", &sha256(&bytes)[..8]));
        let content = place.checkpoint(tag);
        let weights = safetensors::SafeTensors::deserialize(&bytes).expect("a file");
        assert_eq!(weights.len(), 4, "nothing but the model");
        for (name, view) in weights.tensors() {
            assert_eq!(
                view.data(),
                content[&format!("parameters/{name}")].1,
                "{tag} {name}"
            );
        }
        let eval = ["eval", "manifest.json", "--checkpoint", &path];
        place.sconce(&eval).expect(0, &[]);
    }
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    use std::fmt::Write as _;
    let digest = sha2::Sha256::digest(bytes);
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("strings take all");
        text
    })
}

#[test]
fn averages_are_loaded_and_published_in_the_parameters_place() {
    let config = json!({"tag": "only", "best": [{"monitor": "loss"}], "load_best": true,
        "publish": ["last"], "set": "ema"});
    let (place, finished) = run(json!(["ema", checkpoint(config)]));
    finished.expect(0, &["published published/only-"]);
    let content = place.checkpoint("best-loss");
    let weights = fs::read(place.path("out/weights.safetensors")).expect("weights");
    let weights = safetensors::SafeTensors::deserialize(&weights).expect("a file");
    assert!(!weights.is_empty());
    for (name, view) in weights.tensors() {
        assert_eq!(
            view.data(),
            content[&format!("published/ema/{name}")].1,
            "{name}"
        );
    }
    let file = &files(&place, "out/published")[0];
    let bytes = fs::read(place.path(&format!("out/published/{file}"))).expect("it is there");
    let weights = safetensors::SafeTensors::deserialize(&bytes).expect("a file");
    let content = place.checkpoint("only");
    assert!(!weights.is_empty());
    for (name, view) in weights.tensors() {
        assert_eq!(
            view.data(),
            content[&format!("published/ema/{name}")].1,
            "{name}"
        );
    }
}

#[test]
fn parameters_alone_are_small_and_nobody_goes_back_to_them() {
    let back = json!({"hook": "asker", "priority": "LOWEST", "config":
        {"at": "after_cycle", "what": "roll_back", "text": "epoch-1", "after_iteration": 6, "once": true}});
    let (place, finished) = run(json!([checkpoint(json!({"parameters_only": true})), back]));
    finished.expect(4, &["can't roll back to `epoch-1`", "the parameters alone"]);
    let names = files(&place, "out/checkpoints/epoch-1");
    assert_eq!(
        names,
        [
            "index.json",
            "manifest.json",
            "parameters.safetensors",
            "preprocessing.json",
            "state.json"
        ]
    );
    // What the host has saved of the failed run is one to go on from.
    let latest = fs::read_link(place.path("out/checkpoints/latest"));
    assert!(latest.is_ok_and(|tag| tag == std::path::Path::new("failed")));
    let eval = [
        "eval",
        "manifest.json",
        "--checkpoint",
        "out/checkpoints/epoch-1",
    ];
    place.sconce(&eval).expect(0, &[]);
}

#[test]
fn a_run_that_goes_back_keeps_what_it_should() {
    let back = json!({"hook": "asker", "priority": "LOWEST", "config": {"at": "after_iter",
        "phase": "train", "what": "roll_back", "text": "epoch-3", "after_iteration": 11, "once": true}});
    let config = json!({"keep_last": 2, "best": [{"monitor": "loss", "keep": 2}]});
    let (straight, finished) = run(json!([checkpoint(config.clone())]));
    finished.expect(0, &[]);
    let (place, finished) = run(json!([checkpoint(config), back]));
    finished.expect(0, &[]);
    assert_eq!(tags(&place), tags(&straight));
    assert!(!tags(&place).is_empty());
    for tag in tags(&place) {
        let (found, expected) = (place.checkpoint(&tag), straight.checkpoint(&tag));
        assert!(
            found["parameters/fc1.weight"] == expected["parameters/fc1.weight"],
            "{tag}"
        );
    }
}

#[test]
fn an_epoch_that_was_broken_off_has_a_tag_of_its_own() {
    let stop = json!({"hook": "stop-after", "config": {"iterations": 7}});
    let (place, finished) = run(json!([stop, checkpoint(json!({"keep_last": 2}))]));
    finished.expect(0, &[]);
    assert_eq!(tags(&place), ["epoch-2", "iteration-7"]);
}

/// Files of more than 8 KiB can't be written, as on a full disk.
#[test]
#[cfg(unix)]
fn a_save_that_fails_is_a_warning_or_an_error() {
    for (on_failure, code) in [("warn", 7), ("error", 4)] {
        let place = Workplace::new(PLUGINS);
        let config = json!({"keep_last": 1, "last": "last", "on_failure": on_failure});
        place.write(&manifest(json!([checkpoint(config)])));
        let sconce = artifacts().sconce();
        let script = format!(
            "trap '' XFSZ; ulimit -f 16; exec '{}' run manifest.json",
            sconce.display()
        );
        let output = Command::new("sh")
            .args(["-c", &script])
            .current_dir(place.directory())
            .output()
            .expect("a shell");
        let words = "the checkpoint `epoch-1` is not saved";
        Finished::from(output).expect(code, &[words]);
        assert!(tags(&place).is_empty());
    }
}

#[test]
fn nonsense_is_refused() {
    for (config, words) in [
        (json!({"epochs": -1}), "epochs"),
        (json!({"keep_last": 0}), "keep_last"),
        (json!({"minutes": 0}), "minutes"),
        (
            json!({"tag": "a-{epcoh}"}),
            "`{epcoh}`; there are `{epoch}`",
        ),
        (json!({"load_best": true}), "give a metric under `best`"),
        (
            json!({"best": [{"monitor": "loss", "keep": 3, "tag": "b"}]}),
            "tags that differ",
        ),
        (json!({"best": [{"monitor": "accuarcy"}]}), "accuarcy"),
    ] {
        let (_, finished) = run(json!([checkpoint(config.clone())]));
        finished.expect_refused(words);
    }
}

/// Two entries: each keeps what it saved and deletes nothing of the other's, when the run is resumed too.
#[test]
fn two_entries_keep_to_their_own_checkpoints() {
    let hooks = json!([
        {"hook": "checkpoint", "config": {"keep_last": 2, "best": [{"monitor": "loss"}]}},
        {"hook": "checkpoint", "config": {"epochs": 2, "save_last": false, "keep_every": 4, "keep_last": 1}},
        {"hook": "checkpoint", "name": "by the way", "config": {"iterations": 7}}
    ]);
    let expected = [
        "best-loss",
        "checkpoint-2-epoch-4",
        "checkpoint-2-epoch-6",
        "epoch-5",
        "epoch-6",
        "iteration-14",
        "iteration-18",
        "iteration-7",
    ];
    let (place, finished) = run(hooks.clone());
    finished.expect(0, &[]);
    assert_eq!(tags(&place), expected);
    // The same in two parts.
    let place = Workplace::new(PLUGINS);
    place.write(&manifest(hooks));
    let parts = [["--set", "train.epochs=3"], ["--resume", "epoch-3"]];
    for part in parts {
        place
            .sconce(&[&["run", "manifest.json"][..], &part].concat())
            .expect(0, &[]);
    }
    let found = tags(&place);
    // The first part's end was saved too.
    let found: Vec<&String> = found.iter().filter(|tag| *tag != "iteration-9").collect();
    assert_eq!(found, expected.iter().collect::<Vec<_>>());
}

#[test]
fn two_entries_with_one_tag_are_an_error() {
    let place = Workplace::new(PLUGINS);
    for (first, second, words) in [
        (
            json!({"last": "last"}),
            json!({"last": "last"}),
            "the tag `last`",
        ),
        (
            json!({}),
            json!({"tag": "epoch-{epoch:3}"}),
            "`epoch-{epoch:3}`",
        ),
        (
            json!({"best": [{"monitor": "loss", "tag": "best"}]}),
            json!({"tag": "best"}),
            "the tag `best`",
        ),
    ] {
        let finished = place.run(&manifest(json!([checkpoint(first), checkpoint(second)])));
        assert!(finished.code != 0, "{}", finished.stdout);
        let told = &finished.stderr;
        assert!(
            told.contains(words) && told.contains("of the entry `checkpoint`"),
            "{told}"
        );
        assert!(told.contains("checkpoint-2-"), "{told}");
    }
}
