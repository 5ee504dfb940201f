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
        assert!(!tags(&one).is_empty(), "{config}");
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
fn a_save_in_the_background_that_fails_is_reported_as_any_other() {
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

fn sha256(text: &str) -> String {
    use sha2::Digest;
    use std::fmt::Write;
    let digest = sha2::Sha256::digest(text.as_bytes());
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("strings take all");
        text
    })
}

/// A workplace with some files to be saved.
fn with_files() -> Workplace {
    let place = place();
    for directory in ["configs/deep", "other"] {
        std::fs::create_dir_all(place.path(directory)).expect("a directory");
    }
    place.write_text("other/a.json", "another one\n");
    for name in [
        "train.py",
        "configs/a.json",
        "configs/b.json",
        "configs/deep/c.json",
    ] {
        place.write_text(name, &format!("this is {name}\n"));
    }
    place
}

fn save_file(place: &Workplace, config: Value) -> Finished {
    place.run(&manifest(json!([{"hook": "save-file", "config": config}])))
}

/// The lines of `SHA256SUMS`: names and hashes.
fn sums(place: &Workplace, directory: &str) -> Vec<(String, String)> {
    let text = place.read(&format!("out/{directory}/SHA256SUMS"));
    let lines = text
        .lines()
        .map(|line| line.split_once("  ").expect("a sum"));
    lines
        .map(|(hash, name)| (name.to_owned(), hash.to_owned()))
        .collect()
}

#[test]
fn files_are_copied_with_their_hashes() {
    for (config, directory, names) in [
        (
            json!({"files": ["train.py", "configs/*.json"]}),
            "files",
            vec!["train.py", "configs/a.json", "configs/b.json"],
        ),
        (
            json!({"files": ["configs"], "directory": "made/of"}),
            "made/of",
            vec!["configs/a.json", "configs/b.json", "configs/deep/c.json"],
        ),
        (
            json!({"files": ["configs/**/[bc].json", "./train.py", "train.py"], "keep_directories": false}),
            "files",
            vec!["b.json", "c.json", "train.py"],
        ),
        (
            json!({"files": ["train.py"], "at": ["end"]}),
            "files",
            vec!["train.py"],
        ),
    ] {
        let place = with_files();
        save_file(&place, config.clone()).expect(0, &[]);
        let sums = sums(&place, directory);
        let found: Vec<&str> = sums.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(found, names, "{config}");
        for (name, hash) in &sums {
            let copy = place.read(&format!("out/{directory}/{name}"));
            assert_eq!(sha256(&copy), *hash, "{name}");
            assert!(copy.trim_end().ends_with(name), "{copy}");
        }
    }
}

#[test]
fn what_changes_in_a_run_is_kept_twice() {
    let place = with_files();
    // The table has no row at the start; its directory is the run's.
    place.write_text("out-then.txt", "then\n");
    let config = json!({"files": ["out-then.txt", "out/train.csv"], "at": ["start", "end"],
        "on_missing": "ignore", "keep_directories": false});
    let hooks = json!(["csv", {"hook": "save-file", "config": config}]);
    place.run(&manifest(hooks.clone())).expect(0, &[]);
    let names = |place: &Workplace| -> Vec<String> {
        sums(place, "files")
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    };
    assert_eq!(names(&place), ["out-then.txt", "train.csv"]);
    assert_eq!(
        place.read("out/files/train.csv"),
        place.read("out/train.csv")
    );

    // Now it is there from the start, and another one at the end.
    let table = place.read("out/train.csv");
    let longer = edit(manifest(hooks), "/train/epochs", json!(2));
    place.run(&longer).expect(0, &[]);
    let now = sha256(&place.read("out/train.csv"));
    let later = format!("train-{}.csv", &now[..8]);
    assert_eq!(names(&place), ["out-then.txt", "train.csv", later.as_str()]);
    assert_eq!(place.read("out/files/train.csv"), table);
    assert_eq!(
        place.read(&format!("out/files/{later}")),
        place.read("out/train.csv")
    );
}

#[test]
fn a_file_that_cant_be_saved_is_reported() {
    for (config, code, words) in [
        (
            json!({"files": ["no.py"]}),
            4,
            "`no.py` leads to no file in `",
        ),
        (
            json!({"files": ["no.py"], "on_missing": "warn"}),
            0,
            "`no.py` leads to no file in `",
        ),
        (
            json!({"files": ["train.py"], "largest": 1e-6}),
            4,
            "`largest` is 0.000001",
        ),
        (
            json!({"files": ["configs/a.json", "other/a.json"], "keep_directories": false}),
            4,
            "would have one copy, `a.json`",
        ),
        (json!({"files": []}), 3, "files"),
        (
            json!({"files": ["/dev/null"]}),
            3,
            "`/dev/null` is neither a file nor a directory",
        ),
        (json!({"files": ["a[.py"]}), 3, "`a[.py` is not a pattern"),
        (
            json!({"files": ["a"], "directory": "../x"}),
            3,
            "stay below it: `../x`",
        ),
        (json!({"fils": ["a"]}), 3, "fils"),
    ] {
        let place = with_files();
        let finished = save_file(&place, config.clone());
        let is_refused = code == 3 && finished.code != 0;
        assert!(
            finished.code == code || is_refused,
            "{config}: {}\n{}",
            finished.code,
            finished.stderr
        );
        assert!(
            finished.stderr.contains(words),
            "{words}: {}",
            finished.stderr
        );
    }
}

#[test]
fn a_resumed_run_goes_on_with_the_list_of_copies() {
    let place = with_files();
    let hooks = |files: Value| json!([checkpoint(json!({})), {"hook": "save-file", "config": {"files": files}}]);
    place
        .run(&manifest(hooks(json!(["train.py"]))))
        .expect(0, &[]);
    place.write_text("train.py", "another\n");
    place.write(&edit(
        manifest(hooks(json!(["train.py"]))),
        "/train/epochs",
        json!(5),
    ));
    place
        .sconce(&["run", "manifest.json", "--resume"])
        .expect(0, &[]);
    let sums = sums(&place, "files");
    assert_eq!((sums.len(), sums[0].0.as_str()), (2, "train.py"));
    assert_eq!(place.read(&format!("out/files/{}", sums[1].0)), "another\n");
    assert_eq!(sums[1].1, sha256("another\n"));
}
