//! A hook gets another library in mid-run, with its state, or keeps its own and the run goes on undisturbed.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use sconce_tests::{Workplace, edit, patched, python_with, tiny, until};
use serde_json::{Value, json};

const WRECKER: &str = "sconce-fixture-wrecker";
const RECORDER: &str = "sconce-fixture-recorder";

/// A training that goes on until it is interrupted.
struct Running {
    place: Workplace,
    run: Child,
}

impl Running {
    /// Starts a run with these hooks, whose libraries may change after each iteration.
    fn with(hooks: Value) -> Running {
        Running::at(Workplace::new(&[WRECKER, RECORDER]), hooks)
    }

    /// As `with`, in a directory that is there.
    fn at(place: Workplace, hooks: Value) -> Running {
        let manifest = edit(tiny(), "/hooks", hooks);
        let manifest = edit(manifest, "/train/epochs", json!(1_000_000));
        let manifest = edit(manifest, "/limits", json!({"call": 5.0}));
        place.write(&edit(manifest, "/reload_at", json!("iteration")));
        let log = fs::File::create(place.path("log.txt")).expect("a file");
        let mut run = place.command(&["run", "manifest.json"]);
        let run = run.stdout(Stdio::null()).stderr(log).spawn();
        let run = run.expect("it starts");
        let running = Running { place, run };
        until("the run has begun", || {
            let log = running.place.read("log.txt");
            log.contains("hooks, in the order").then_some(())
        });
        running
    }

    fn library(&self) -> PathBuf {
        self.place.path("plugins/libsconce_fixture_wrecker.so")
    }

    /// Puts another file in the place of the wrecker's library, as builds and copies do: at once.
    fn replace(&self, bytes: &[u8]) {
        let new = self.place.path("plugins/new");
        fs::write(&new, bytes).expect("written");
        fs::rename(new, self.library()).expect("renamed");
    }

    /// Number of copies of libraries that the run has open.
    fn open_copies(&self) -> usize {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.run.id())).expect("descriptors");
        let targets = entries
            .flatten()
            .filter_map(|entry| fs::read_link(entry.path()).ok());
        let is_copy = |target: &PathBuf| target.to_string_lossy().contains(".so");
        targets.filter(is_copy).count()
    }

    /// `sconce reload --wait`: exit code, standard output and standard error.
    fn reload(&self, hook: &str) -> (i32, String, String) {
        let arguments = ["reload", "out", "--hook", hook, "--wait"];
        let finished = self.place.sconce(&arguments);
        (finished.code, finished.stdout, finished.stderr)
    }

    /// Interrupts the run; returns its log and its record.
    fn end(self) -> (String, Value) {
        let place = self.interrupt();
        let record = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
        (place.read("log.txt"), record)
    }

    /// Interrupts the run; returns its directory.
    fn interrupt(mut self) -> Workplace {
        let id = self.run.id().to_string();
        let interrupted = std::process::Command::new("kill")
            .args(["-INT", &id])
            .status();
        assert!(interrupted.is_ok_and(|status| status.success()));
        let status = self.run.wait().expect("it ends");
        assert_eq!(status.code(), Some(130), "{}", self.place.read("log.txt"));
        std::mem::replace(&mut self.place, Workplace::new(&[]))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.run.kill());
        drop(self.run.wait());
    }
}

/// The wrecker's entry, which does what it does when its state is restored: never in a run that is not resumed.
fn wrecker(how: &str) -> Value {
    json!({"hook": "wrecker", "name": how, "config": {"at": "load_state", "how": how}})
}

/// The library with another version in its metadata, of the same length.
fn of_version(version: &str, bytes: &[u8]) -> Vec<u8> {
    patched(
        bytes.to_vec(),
        b"\"version\":\"0.1.0\"",
        format!("\"version\":\"{version}\"").as_bytes(),
    )
}

#[test]
fn a_new_library_takes_the_place_of_the_old_one_and_is_recorded() {
    // "nothing" is never done: the wrecker gets by in `load_state` if the name is that of another method.
    let entry =
        json!({"hook": "wrecker", "name": "bad", "config": {"at": "nowhere", "how": "segv"}});
    let running = Running::with(json!([entry, "recorder"]));
    let old = fs::read(running.library()).expect("a library");
    let (code, stdout, stderr) = running.reload("bad");
    assert_eq!(code, 3, "{stdout}{stderr}");
    assert!(
        stderr.contains("has not changed; the old one goes on")
            || stderr.contains("has not changed"),
        "{stderr}"
    );
    running.replace(&of_version("0.1.1", &old));
    let (code, stdout, stderr) = running.reload("bad");
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stdout.contains("`bad` is reloaded: 0.1.0 ("), "{stdout}");
    let kept = fs::read_dir(running.place.path("out/plugins")).expect("they are kept");
    assert_eq!(kept.count(), 2);
    let (log, record) = running.end();
    assert!(log.contains("`bad` is reloaded: 0.1.0 ("), "{log}");
    let history = record["history"].as_array().expect("a list");
    let reload = history
        .iter()
        .find(|one| one["kind"] == "reload")
        .expect("it is recorded");
    assert_eq!(
        (&reload["hook"], &reload["to"]["version"]),
        (&json!("bad"), &json!("0.1.1"))
    );
    assert_eq!(reload["from"]["version"], "0.1.0");
}

#[test]
fn nine_refusals_and_the_run_goes_on_undisturbed() {
    let template = Workplace::new(&[WRECKER, RECORDER]);
    let bytes = |package: &str| {
        fs::read(template.path(&format!("plugins/lib{}.so", package.replace('-', "_"))))
            .expect("read")
    };
    let (wrecker_file, recorder_file) = (bytes(WRECKER), bytes(RECORDER));
    let next = of_version("0.1.1", &wrecker_file);
    let epoch = patched(next.clone(), b"\"abi_epoch\":1,", b"\"abi_epoch\":2,");
    let renamed = patched(
        next.clone(),
        b"\"name\":\"wrecker\"",
        b"\"name\":\"wrackes\"",
    );
    let foreign = b"#!/bin/sh\necho not a library\n".to_vec();
    let half = next[..next.len() / 2].to_vec();
    let files: [(&str, &[u8], &str); 9] = [
        ("error", &half, "is refused: "),
        ("error", &foreign, "is refused: "),
        (
            "error",
            &recorder_file,
            "is now the plugin `sconce-fixture-recorder`",
        ),
        ("error", &renamed, "no longer has the hook `wrecker`"),
        ("error", &epoch, "epoch 2"),
        (
            "error",
            &next,
            "fails when the hook's state is restored: an error on purpose",
        ),
        (
            "panic",
            &next,
            "fails when the hook's state is restored: a panic on purpose",
        ),
        (
            "segv",
            &next,
            "fails when the hook's state is restored: crashed (SIGSEGV)",
        ),
        (
            "hang",
            &next,
            "fails when the hook's state is restored: took longer than",
        ),
    ];
    let hooks = ["error", "panic", "segv", "hang"].map(wrecker);
    let running = Running::with(json!(hooks));
    let copies = running.open_copies();
    let mut sentences = Vec::new();
    for (hook, file, words) in files {
        running.replace(file);
        let (code, stdout, stderr) = running.reload(hook);
        assert_eq!(code, 3, "{words}: {stdout}{stderr}");
        let refused = format!("`{hook}` is not reloaded: ");
        for words in [&refused, words, "the old one goes on"] {
            assert!(stderr.contains(words), "{words}: {stderr}");
        }
        sentences.push(stderr);
    }
    sentences.dedup();
    assert_eq!(sentences.len(), 9, "nine sentences");
    // The same file again is tried again; what was refused leaves nothing open, and the report of a crash is there.
    let (code, _, stderr) = running.reload("segv");
    assert_eq!(code, 3);
    assert!(stderr.contains("crashed (SIGSEGV)"), "{stderr}");
    let report = running.place.path("out/hook-crash.segv.reload.json");
    assert!(
        report.exists() && stderr.contains("out/hook-crash.segv.reload.json"),
        "{stderr}"
    );
    assert_eq!(running.open_copies(), copies);
    let (_, record) = running.end();
    assert_eq!(record["outcome"], "interrupted");
    let history = record["history"].as_array().expect("a list");
    let refusals = history.iter().filter(|one| one["kind"] == "reload-refused");
    assert_eq!(refusals.count(), 10);
}

#[test]
fn a_resumed_run_knows_the_new_library() {
    let entry =
        json!({"hook": "wrecker", "name": "bad", "config": {"at": "nowhere", "how": "segv"}});
    let running = Running::with(json!([entry]));
    let old = fs::read(running.library()).expect("a library");
    running.replace(&of_version("0.1.1", &old));
    let (code, stdout, stderr) = running.reload("bad");
    assert_eq!(code, 0, "{stdout}{stderr}");
    let library = running.library();
    let place = running.interrupt();
    // All epochs are done by then: it only ends.
    let resume = [
        "run",
        "manifest.json",
        "--resume",
        "--set",
        "train.epochs=1",
    ];
    place.sconce(&resume).expect(0, &[]);
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    assert_eq!(record["history"][0]["kind"], "reload");
    assert_eq!(record["history"][0]["to"]["version"], "0.1.1");
    fs::remove_file(&library).expect("removed");
    fs::write(&library, old).expect("written");
    place.sconce(&resume).expect(2, &["bad"]);
}

#[test]
fn a_library_that_refuses_the_configuration_is_refused() {
    let place = Workplace::new(&[]);
    let Some(library) = place.add_c_plugin("examples/clip-in-c/clip.c", &[]) else {
        return;
    };
    let entry = json!({"hook": "clip", "name": "bad", "config": {"max_norm": 0.5}});
    let running = Running::at(place, json!([entry]));
    let old = fs::read(&library).expect("a library");
    let new = running.place.path("plugins/new");
    fs::write(&new, patched(old, b"\"max_norm\"", b"\"max_size\"")).expect("written");
    fs::rename(new, &library).expect("renamed");
    let (code, stdout, stderr) = running.reload("bad");
    assert_eq!(code, 3, "{stdout}{stderr}");
    assert!(
        stderr.contains("the new library refuses the hook's configuration: ")
            && stderr.contains("max_norm"),
        "{stderr}"
    );
    running.end();
}

#[test]
fn a_changed_file_is_noticed_and_a_pinned_one_never_replaced() {
    let entry = json!({"hook": "wrecker", "name": "bad", "reload": "changed",
        "config": {"at": "nowhere", "how": "segv"}});
    let running = Running::with(json!([entry]));
    let old = fs::read(running.library()).expect("a library");
    running.replace(&of_version("0.1.1", &old));
    until("the run has the new library", || {
        running
            .place
            .read("log.txt")
            .contains("`bad` is reloaded: 0.1.0 (")
            .then_some(())
    });
    running.end();

    let digest = Workplace::new(&[WRECKER]).sconce(&[
        "inspect",
        "--json",
        "plugins/libsconce_fixture_wrecker.so",
    ]);
    let inspected: Value = serde_json::from_str(&digest.stdout).expect("JSON");
    let entry = json!({"hook": "wrecker", "name": "bad", "sha256": inspected["sha256"],
        "config": {"at": "nowhere", "how": "segv"}});
    let running = Running::with(json!([entry]));
    running.replace(&of_version("0.1.1", &old));
    let (code, _, stderr) = running.reload("bad");
    assert_eq!(code, 3);
    assert!(
        stderr.contains("does not allow it (`reload`, `sha256`)"),
        "{stderr}"
    );
    let unknown = running
        .place
        .sconce(&["reload", "out", "--hook", "bat", "--wait"]);
    unknown.expect(
        3,
        &["the run has no hook of that name; did you mean `bad`?"],
    );
    running.end();
    let nowhere = Workplace::new(&[]);
    nowhere
        .sconce(&["reload", "out"])
        .expect(2, &["no run is going on in `out`"]);
}

#[test]
fn hooks_loaded_again_at_every_iteration_leave_the_same_weights_and_files() {
    const PLUGINS: [&str; 6] = [
        "sconce-plugin-checkpoints",
        "sconce-plugin-csv",
        "sconce-plugin-logging",
        "sconce-plugin-metrics",
        "sconce-plugin-models",
        "sconce-plugin-optimisation",
    ];
    let hooks = json!([
        {"hook": "lr-schedule", "config": {"schedule": {"kind": "cosine"}}},
        {"hook": "grad-clip", "config": {"max_norm": 0.5}},
        {"hook": "ema", "config": {"decay": 0.9}},
        {"hook": "activation-stats", "config": {"every": 2}},
        "csv",
        "jsonl",
        {"hook": "checkpoint", "config": {"epochs": 1}},
    ]);
    let manifest = edit(tiny(), "/hooks", hooks);
    let plain = Workplace::new(&PLUGINS);
    plain.run(&manifest).expect(0, &[]);
    for environment in [
        [("SCONCE_RELOAD_EVERY", "1"), ("SCONCE_ISOLATE", "none")],
        [("SCONCE_RELOAD_EVERY", "2"), ("SCONCE_ISOLATE", "all")],
    ] {
        let reloaded = Workplace::new(&PLUGINS);
        reloaded.write(&manifest);
        reloaded
            .sconce_in(&["run", "manifest.json"], &environment)
            .expect(0, &[]);
        for file in [
            "weights.safetensors",
            "train.csv",
            "val.csv",
            "log.jsonl",
            "activations.csv",
        ] {
            let read = |place: &Workplace| fs::read(place.path("out").join(file)).expect(file);
            assert!(
                read(&reloaded) == read(&plain),
                "{file} with {environment:?}"
            );
        }
    }
}

/// A hook in Python that says once what it is, and how many iterations all its instances have seen.
fn counter(word: &str, more: &str) -> String {
    format!(
        "import sconce\nfrom parts import helper\n{more}\n\nclass Counter(sconce.Hook):\n    \
         def __init__(self, config, setup):\n        self.seen, self.said = 0, False\n\n    \
         def after_iter(self, task):\n        self.seen += 1\n        if not self.said:\n            \
         print('{word}', helper.WORD, self.seen > 1)\n        self.said = True\n\n    \
         def state_dict(self):\n        return {{'seen': self.seen}}\n\n    \
         def load_state_dict(self, state):\n        self.seen = state['seen']\n"
    )
}

#[test]
fn a_hook_in_python_gets_its_new_code_and_what_lies_beside_it() {
    let Some(python) = python_with(&[]) else {
        return;
    };
    for isolation in ["none", "process"] {
        let place = Workplace::new(&["sconce-plugin-python"]);
        place.write_text("case.py", &counter("first", ""));
        // A package without `__init__.py`, which itself is never read again.
        fs::create_dir(place.path("parts")).expect("a directory");
        place.write_text("parts/helper.py", "WORD = 'old'\n");
        let config = json!({"file": "case.py", "python": python});
        let entry =
            json!({"hook": "python", "name": "case", "isolation": isolation, "config": config});
        let running = Running::at(place, json!([entry]));
        let says = |words: &str| {
            until(words, || {
                running.place.read("log.txt").contains(words).then_some(())
            });
        };
        let reloaded = |arguments: &[&str]| {
            let finished = running.place.sconce(arguments).expect(0, &[]);
            finished.stdout
        };
        let (named, all) = (
            ["reload", "out", "--hook", "case", "--wait"],
            ["reload", "out", "--wait"],
        );
        says("case: first old False");
        assert!(!reloaded(&all).contains("is reloaded"), "nothing is new");
        running.place.write_text("case.py", &counter("other", ""));
        let words = reloaded(&all);
        assert!(words.contains("`case` is reloaded: 0.1.0 ("), "{words}");
        says("case: other old True");
        // What it imports, of the same length and perhaps in the same second.
        running
            .place
            .write_text("parts/helper.py", "WORD = 'new'\n");
        reloaded(&named);
        says("case: other new True");
        running
            .place
            .write_text("case.py", &counter("wrong", "1 +"));
        let refused = running
            .place
            .sconce(&named)
            .expect(3, &["the old one goes on"]);
        let words = "the new library fails when the hook is created";
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
        let kept = fs::read_dir(running.place.path("out/plugins")).expect("they are kept");
        let kept = kept.flatten().map(|entry| entry.path());
        let kept: Vec<PathBuf> = kept.collect();
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(
            fs::read_to_string(&kept[0]).ok(),
            Some(counter("other", ""))
        );
        let (log, record) = running.end();
        assert!(!log.contains("wrong new"), "{log}");
        let history = record["history"].as_array().expect("a list");
        assert_eq!(history.len(), 3);
        let (first, second) = (&history[0], &history[1]);
        assert_eq!(first["from"]["sha256"], first["to"]["sha256"]);
        assert_ne!(first["from"]["script"], first["to"]["script"]);
        assert_eq!(first["to"]["script"], second["from"]["script"]);
        assert_eq!(history[2]["kind"], "reload-refused");
    }
}
