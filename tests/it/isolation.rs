//! Hooks in processes of their own: they see and do the same, and what they do wrong ends at most them.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use sconce_tests::{Finished, Workplace, edit, tiny, until};
use serde_json::{Value, json};

const PLUGINS: [&str; 8] = [
    "sconce-fixture-recorder",
    "sconce-fixture-wrecker",
    "sconce-plugin-checkpoints",
    "sconce-plugin-csv",
    "sconce-plugin-logging",
    "sconce-plugin-metrics",
    "sconce-plugin-models",
    "sconce-plugin-optimisation",
];

/// Every hook of a run in a process of its own.
const ALL: [(&str, &str); 1] = [("SCONCE_ISOLATE", "all")];

fn place() -> Workplace {
    Workplace::new(&PLUGINS)
}

/// A run with a wrecker in a process of its own, under a policy.
fn wrecked(place: &Workplace, at: &str, how: &str, keys: Value) -> Finished {
    let mut entry = json!({
        "hook": "wrecker", "name": "bad", "isolation": "process",
        "config": {"at": at, "how": how, "after_iteration": 2}
    });
    for (key, value) in keys.as_object().expect("keys") {
        entry[key] = value.clone();
    }
    place.run(&edit(tiny(), "/hooks", json!([entry, "recorder"])))
}

fn report(place: &Workplace) -> Value {
    serde_json::from_str(&place.read("out/hook-crash.bad.json")).expect("JSON")
}

fn weights(place: &Workplace) -> Vec<u8> {
    fs::read(place.path("out/weights.safetensors")).expect("the weights are there")
}

fn history(place: &Workplace) -> Vec<Value> {
    let run: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    run["history"].as_array().cloned().unwrap_or_default()
}

#[test]
fn isolated_hooks_leave_the_same_weights_and_files() {
    let hooks = json!([
        {"hook": "lr-schedule", "config": {"schedule": {"kind": "cosine"}}},
        {"hook": "grad-clip", "config": {"max_norm": 0.5}},
        {"hook": "ema", "config": {"decay": 0.9}},
        {"hook": "activation-stats", "config": {"every": 2}},
        "recorder",
        "csv",
        "jsonl",
        {"hook": "checkpoint", "config": {"epochs": 1}},
    ]);
    let manifest = edit(tiny(), "/hooks", hooks);
    let here = place();
    here.run(&manifest).expect(0, &[]);
    let apart = place();
    apart.write(&manifest);
    apart
        .sconce_in(&["run", "manifest.json"], &ALL)
        .expect(0, &[]);
    assert_eq!(weights(&apart), weights(&here));
    let files = [
        "record.jsonl",
        "log.jsonl",
        "train.csv",
        "val.csv",
        "test.csv",
        "activations.csv",
        "checkpoints/latest/parameters.safetensors",
        "checkpoints/latest/optimizer.safetensors",
    ];
    let mut compared = 0;
    for file in files {
        let read = |place: &Workplace| fs::read(place.path("out").join(file));
        if let Ok(expected) = read(&here) {
            assert!(read(&apart).is_ok_and(|found| found == expected), "{file}");
            compared += 1;
        }
    }
    assert!(compared >= 6, "only {compared} of the files are there");
}

#[test]
fn whatever_ends_its_process_the_run_goes_on_without_it() {
    let alone = place();
    alone.run(&edit(tiny(), "/hooks", json!(["recorder"])));
    for (how, words, kind) in [
        (
            "segv",
            "hook `bad` crashed (SIGSEGV) in a process of its own",
            "crash",
        ),
        ("abort", "crashed (SIGABRT)", "crash"),
        ("kill", "crashed (SIGKILL)", "crash"),
        ("stack-overflow", "crashed (SIGSEGV)", "crash"),
        ("double-panic", "crashed (SIGABRT)", "crash"),
        ("thread-segv", "crashed (SIGSEGV)", "crash"),
        ("exit", "ended its own process (exit code 0)", "exit"),
        ("_exit", "ended its own process (exit code 0)", "exit"),
        ("quick-exit", "ended its own process (exit code 0)", "exit"),
        ("exec", "ended its own process (exit code 0)", "exit"),
        (
            "hang",
            "took longer than 3 s, so that its own process was killed,",
            "hang",
        ),
        ("busy", "took longer than 3 s", "hang"),
    ] {
        let place = place();
        // Far beyond what a call takes on a busy machine, but for those that never return.
        let limit = if kind == "hang" { 3.0 } else { 60.0 };
        let keys = json!({"on_crash": "disable", "time_limit": limit});
        let finished = wrecked(&place, "after_iter", how, keys);
        finished.expect(
            0,
            &[
                words,
                "at `after_iter` (train), epoch 0, iteration 2",
                "in plugin plugins/libsconce_fixture_wrecker.so",
                "`bad` is disabled from now on",
            ],
        );
        let report = report(&place);
        assert_eq!(
            (&report["kind"], &report["hook"]),
            (&json!(kind), &json!("bad")),
            "{how}"
        );
        assert_eq!(report["iteration"], 2, "{how}");
        assert_eq!(weights(&place), weights(&alone), "{how}");
    }
}

/// What the host and the hook's process share can be used against the host by neither of its ends.
/// What a run leaves, but for times and messages: its files of tensors, its metrics, and which files there are.
fn left_by(place: &Workplace) -> (Vec<(String, Vec<u8>)>, Value) {
    let run: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let mut files = Vec::new();
    let mut directories = vec![place.path("out")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let is_of_tensors = path.extension().is_some_and(|end| end == "safetensors");
            if path.is_dir() {
                directories.push(path);
            } else if is_of_tensors {
                let bytes = fs::read(&path).expect("a file");
                files.push((
                    path.strip_prefix(place.path("out"))
                        .expect("in it")
                        .display()
                        .to_string(),
                    bytes,
                ));
            }
        }
    }
    files.sort();
    (files, json!([run["metrics"], run["outcome"]]))
}

#[test]
fn a_call_in_which_the_process_ends_has_not_happened_whatever_it_did() {
    let half_done = |at: &str, effects: usize| {
        let place = place();
        let hooks = json!([
            {
                "hook": "half-done", "name": "bad", "isolation": "process", "on_crash": "disable",
                "config": {"at": at, "effects": effects}
            },
            {"hook": "checkpoint"}
        ]);
        let manifest = edit(tiny(), "/optimizer/momentum", json!(0.9));
        let finished = place.run(&edit(manifest, "/hooks", hooks));
        let words: &[&str] = if at.is_empty() {
            &[]
        } else {
            &["crashed (SIGABRT)"]
        };
        finished.expect(0, words);
        left_by(&place)
    };
    let (files, metrics) = half_done("", 0);
    for (at, effects) in [
        ("before_iter", 7),
        ("after_loss", 2),
        ("after_backward", 2),
        ("after_iter", 11),
        ("before_save_checkpoint", 2),
    ] {
        for count in 1..=effects {
            let left = half_done(at, count);
            assert_eq!(left.1, metrics, "{at}, {count} effects");
            let names = |files: &[(String, Vec<u8>)]| {
                files
                    .iter()
                    .map(|(name, _)| name.clone())
                    .collect::<Vec<_>>()
            };
            assert_eq!(names(&left.0), names(&files), "{at}, {count} effects");
            for (one, other) in left.0.iter().zip(&files) {
                assert!(one == other, "{} after {count} effects at {at}", one.0);
            }
        }
    }
}

#[test]
fn what_is_shared_with_the_host_cannot_be_used_against_it() {
    let alone = place();
    alone.run(&edit(tiny(), "/hooks", json!(["recorder"])));
    for how in [
        "cut-memory",
        "forge-orders",
        "fill-bells",
        "cut-breadcrumbs",
    ] {
        for sandbox in [false, true] {
            let place = place();
            let finished = wrecked(&place, "after_iter", how, json!({"sandbox": sandbox}));
            finished.expect(0, &[]);
            assert_eq!(weights(&place), weights(&alone), "{how}");
        }
    }
    for (how, words) in [
        ("close-bells", "ended its own process"),
        ("close-bells-hang", "it has closed its end of the channel"),
    ] {
        let place = place();
        let keys = json!({"on_crash": "disable"});
        wrecked(&place, "after_iter", how, keys).expect(0, &[words, "`bad` is disabled"]);
        assert_eq!(weights(&place), weights(&alone), "{how}");
    }
}

/// A user may have no directory for the state of programs: an isolated hook leaves no breadcrumbs then, and others do.
#[test]
fn a_user_without_a_state_directory_loses_the_breadcrumbs_of_isolated_hooks_alone() {
    for (entry, warns) in [
        (json!("recorder"), false),
        (json!({"hook": "recorder", "isolation": "process"}), true),
    ] {
        let place = place();
        place.write(&edit(tiny(), "/hooks", json!([entry])));
        let nowhere = [("XDG_STATE_HOME", "/dev/null")];
        let finished = place.sconce_in(&["run", "manifest.json"], &nowhere);
        let finished = finished.expect(0, &[]);
        let has_warned = finished.stderr.contains("no breadcrumbs");
        assert_eq!(has_warned, warns, "{}", finished.stderr);
    }
}

/// What a hook's process has of the host: descriptors, and mappings that are shared.
#[test]
fn a_hooks_process_has_two_bells_and_two_mappings_of_the_host_beside_its_output() {
    let place = place();
    let entry = json!([{"hook": "wrecker", "name": "bad", "sandbox": true,
        "config": {"at": "after_iter", "how": "hang", "after_iteration": 2}}]);
    place.write(&edit(tiny(), "/hooks", entry));
    // The run itself has a descriptor that it did not open, as from a shell's `exec 9>file`.
    let program = place.command(&["run", "manifest.json"]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "exec 9>inherited; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(program.get_args())
        .current_dir(place.path(""));
    let run = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let run = Killed(run.expect("started"));
    // The library is opened by its descriptor, which is closed then.
    let (hook, names) = until("a hook's process with six descriptors", || {
        let hook = *children(run.0.id()).first()?;
        let names = descriptors(hook);
        let is_open = is_mapped(hook, "libsconce_fixture_wrecker");
        (names.len() == 6 && is_open).then_some((hook, names))
    });
    let shared = shared_mappings(hook);
    assert_eq!(names[0], "/dev/null");
    let output = names.iter().filter(|name| **name == names[1]);
    assert_eq!(output.count(), 3, "its output, and a duplicate: {names:?}");
    let bells = &names[4..];
    assert!(
        bells.iter().all(|name| name.starts_with("pipe:")),
        "two bells: {names:?}"
    );
    // What the host writes can't be written to there, and the host writes to lent tensors alone.
    let [to_hook, from_hook] = ["/memfd:sconce-to-hook", "/memfd:sconce-from-hook"];
    let pairs = |pairs: &[(&str, &str)]| {
        let owned = pairs
            .iter()
            .map(|(name, rights)| (name.to_string(), rights.to_string()));
        owned.collect::<Vec<_>>()
    };
    assert_eq!(shared, pairs(&[(from_hook, "rw-s"), (to_hook, "r--s")]));
    let of_host = shared_mappings(run.0.id());
    let of_host = of_host
        .into_iter()
        .filter(|(name, _)| name.contains("sconce-"));
    let expected = [
        (from_hook, "r--s"),
        (from_hook, "rw-s"),
        (from_hook, "r--s"),
        (to_hook, "rw-s"),
    ];
    let mut expected = pairs(&expected);
    expected.sort_unstable();
    assert_eq!(of_host.collect::<Vec<_>>(), expected);
}

/// A process's shared mappings of files in memory, with their rights, sorted.
fn shared_mappings(process: u32) -> Vec<(String, String)> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).expect("its mappings");
    let words = maps
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut shared: Vec<_> = words
        .filter(|words| words.get(1).is_some_and(|rights| rights.ends_with('s')))
        .map(|words| (words.get(5).unwrap_or(&"").to_string(), words[1].to_owned()))
        .collect();
    shared.sort_unstable();
    shared
}

#[test]
fn the_policy_decides_what_becomes_of_the_run() {
    // As `on_error`, which is `fail`.
    let failed = place();
    let finished = wrecked(&failed, "after_iter", "segv", json!({}));
    finished.expect(
        4,
        &["error: hook `bad` crashed (SIGSEGV) in a process of its own"],
    );
    let record = failed.read("out/record.jsonl");
    assert!(record.contains("\"failed"), "the others are told");

    // With its end a hook leaves the list of those that are called, in which the others move up.
    let ended = place();
    let finished = wrecked(&ended, "after_run", "segv", json!({}));
    finished.expect(
        4,
        &["error: hook `bad` crashed (SIGSEGV)", "at `after_run`"],
    );
    let record = ended.read("out/record.jsonl");
    assert!(record.contains("\"after_run\""), "the others are called");

    let restarted = place();
    let keys = json!({"on_crash": {"restart": 2}});
    let finished = wrecked(&restarted, "after_loss", "abort", keys);
    finished.expect(
        0,
        &[
            "`bad` is restarted (1 of 2)",
            "`bad` is restarted (2 of 2)",
            "`bad` is disabled from now on, after 2 restarts",
        ],
    );
    let history = history(&restarted);
    let kinds: Vec<_> = history.iter().map(|one| one["kind"].clone()).collect();
    assert_eq!(kinds, ["restart", "restart"]);
    assert_eq!(history[0]["hook"], "bad");
}

#[test]
fn a_library_that_crashes_when_it_is_opened_or_created_is_refused_with_its_name() {
    let place = place();
    let finished = wrecked(&place, "new", "segv", json!({}));
    finished.expect(
        3,
        &["hook `bad` crashed (SIGSEGV) in a process of its own when it was created"],
    );
    let finished = wrecked(&place, "new", "hang", json!({"time_limit": 3.0}));
    finished.expect(3, &["took longer than 3 s"]);
}

#[test]
fn what_it_prints_is_logged_and_the_last_lines_are_shown_with_its_end() {
    let place = place();
    wrecked(&place, "after_iter", "print", json!({})).expect(0, &["bad: hello from a hook"]);
}

#[test]
fn a_sandbox_refuses_files_sockets_and_programs_and_allows_the_run_directory() {
    for (how, words) in [
        ("read-home", "Permission denied"),
        ("write-outside", "Permission denied"),
        // Through which the run, which has no sandbox, would write elsewhere or wait.
        ("link", "Operation not permitted"),
        ("pipe", "Operation not permitted"),
        ("socket", "Operation not permitted"),
        ("run-program", "Operation not permitted"),
    ] {
        let place = place();
        let finished = wrecked(&place, "after_iter", how, json!({"sandbox": true}));
        finished.expect(4, &["hook `bad` failed at `after_iter`", words]);
        // Without it, the same hook may.
        let place = self::place();
        wrecked(&place, "after_iter", how, json!({})).expect(0, &[]);
    }
    let place = place();
    let hooks = json!([{"hook": "csv", "sandbox": true}, {"hook": "recorder", "sandbox": {"memory": "1GiB"}}]);
    place.run(&edit(tiny(), "/hooks", hooks)).expect(0, &[]);
    assert!(place.read("out/train.csv").lines().count() > 2);
    assert!(place.read("out/record.jsonl").lines().count() > 10);
    let leaking = self::place();
    let entry = json!([{
        "hook": "wrecker", "name": "bad", "on_crash": "disable", "sandbox": {"memory": "64MiB"},
        "config": {"at": "after_iter", "how": "leak", "number": 50_000_000}
    }]);
    let finished = leaking.run(&edit(tiny(), "/hooks", entry));
    finished.expect(
        0,
        &[
            "crashed (SIGABRT)",
            "memory allocation of 50000000 bytes failed",
        ],
    );
}

#[test]
fn a_sandboxed_hook_reaches_neither_other_processes_nor_files_nor_the_system() {
    for rules in [
        json!(true),
        json!({"network": true}),
        json!({"memory": "1GiB"}),
    ] {
        for how in ["reach-out", "touch-own"] {
            let keys = json!({"sandbox": rules});
            wrecked(&place(), "after_iter", how, keys).expect(0, &[]);
        }
    }
    // Without walls, the same calls pass: it tries something.
    let finished = wrecked(&place(), "after_iter", "reach-out", json!({}));
    finished.expect(4, &["the walls have holes: ", "tgkill: 0"]);
    // Another processor's numbers end the process.
    let keys = json!({"sandbox": true, "on_crash": "disable"});
    wrecked(&place(), "after_iter", "x32", keys).expect(0, &["crashed (SIGSYS)"]);
}

/// Processes that a hook has started, by the mark in their environment.
fn started_by_hooks(run: u32) -> Vec<String> {
    let mark = format!("SCONCE_HOOK_PROCESS={run}.");
    let entries = fs::read_dir("/proc").expect("the processes").flatten();
    let is_one = |path: &Path| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&mark)
    };
    let found = entries
        .map(|entry| entry.path())
        .filter(|path| is_one(path));
    found.map(|path| path.display().to_string()).collect()
}

#[test]
fn what_a_crashed_hook_has_started_ends_with_it_though_it_has_left_its_group() {
    let place = place();
    let entry = json!([{
        "hook": "wrecker", "name": "bad", "isolation": "process", "on_crash": "disable",
        "config": {"at": "after_iter", "how": "orphan"}
    }]);
    place.write(&edit(tiny(), "/hooks", entry));
    let mut command = place.command(&["run", "manifest.json"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = child.expect("a process");
    let run = child.id();
    let output = child.wait_with_output().expect("it ends");
    let finished = Finished::from(output);
    finished.expect(0, &["crashed (SIGABRT)"]);
    assert_eq!(started_by_hooks(run), Vec::<String>::new());
}

#[test]
fn what_a_sandbox_refuses_is_named_if_asked_for() {
    let place = place();
    let entry = json!([{
        "hook": "wrecker", "name": "bad", "sandbox": true,
        "config": {"at": "after_iter", "how": "reach-out"}
    }]);
    place.write(&edit(tiny(), "/hooks", entry));
    let log = [("SCONCE_SANDBOX_LOG", "1")];
    let finished = place.sconce_in(&["run", "manifest.json"], &log);
    let lines = ["setpriority", "prlimit64", "shmget"]
        .map(|call| format!("bad: sandbox: the system call `{call}` was refused"));
    for line in &lines {
        // Once, though it is made at every iteration.
        assert_eq!(finished.stderr.matches(line).count(), 1, "{line}");
    }
    finished.expect(0, &[]);
}

#[test]
fn a_sandboxed_hook_sees_no_secrets_of_the_environment_but_those_that_are_named() {
    for (keys, code) in [
        (json!({"sandbox": true}), 0),
        (json!({"sandbox": {"environment": ["OTHER"]}}), 0),
        (json!({"sandbox": {"environment": ["TEST_SECRET"]}}), 4),
        (json!({"isolation": "process"}), 4),
    ] {
        let place = place();
        let mut entry = json!({"hook": "wrecker", "config": {"at": "after_iter", "how": "secret"}});
        for (key, value) in keys.as_object().expect("keys") {
            entry[key] = value.clone();
        }
        place.write(&edit(tiny(), "/hooks", json!([entry])));
        let secret = [("TEST_SECRET", "s3cret"), ("OTHER", "x")];
        let finished = place.sconce_in(&["run", "manifest.json"], &secret);
        let words: &[&str] = if code == 0 {
            &[]
        } else {
            &["the secret is known"]
        };
        finished.expect(code, words);
    }
}

#[test]
fn the_library_is_never_opened_in_the_run_and_no_process_outlives_it() {
    let place = place();
    let entry = json!([{
        "hook": "wrecker", "name": "bad", "isolation": "process",
        "config": {"at": "after_iter", "how": "hang"}
    }]);
    place.write(&edit(tiny(), "/hooks", entry));
    let mut run = place.command(&["run", "manifest.json"]);
    let run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut run = Killed(run.expect("it starts"));
    let child = until("the hook's process is there", || children(run.0.id()).pop());
    let maps =
        |process: u32| fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    until("the library is open", || {
        maps(child)
            .contains("libsconce_fixture_wrecker")
            .then_some(())
    });
    assert!(!maps(run.0.id()).contains("libsconce_fixture_wrecker"));
    run.0.kill().expect("it is killed");
    run.0.wait().expect("it has ended");
    let status = format!("/proc/{child}");
    until("the hook's process is gone", || {
        (!Path::new(&status).exists()).then_some(())
    });
}

/// A process that is killed when it is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// What the descriptors of a process are, in the order of their numbers.
fn descriptors(process: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{process}/fd"));
    let entries = entries.into_iter().flatten().flatten();
    let mut found: Vec<(u32, String)> = entries
        .filter_map(|entry| {
            let number = entry.file_name().to_string_lossy().parse().ok()?;
            let target = fs::read_link(entry.path()).ok()?;
            Some((number, target.display().to_string()))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, target)| target).collect()
}

fn is_mapped(process: u32, name: &str) -> bool {
    let maps = fs::read_to_string(format!("/proc/{process}/maps"));
    maps.is_ok_and(|maps| maps.contains(name))
}

/// Processes that a process has started.
fn children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists =
        tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let lists: Vec<String> = lists.collect();
    let numbers = lists.iter().flat_map(|list| list.split_whitespace());
    numbers.filter_map(|number| number.parse().ok()).collect()
}
