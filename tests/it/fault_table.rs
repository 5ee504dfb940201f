//! What becomes of each fault, run and written down: the tables of `docs/faults.md`.
//!
//! `UPDATE_EXPECT=1 cargo test -p sconce-tests --test it fault_table` rewrites them; without it the
//! test fails where the page is out of date.

use std::fmt::Write;

use sconce_tests::generated::assert_file;
use sconce_tests::{Finished, Workplace, edit, tiny, workspace};
use serde_json::{Value, json};

const BEGIN: &str = "<!-- written by tests/it/fault_table.rs: begin -->";
const END: &str = "<!-- written by tests/it/fault_table.rs: end -->";

/// A fault and the policies that it is tried with.
struct Case {
    fault: &'static str,
    hook: Value,
    policies: &'static [&'static str],
    environment: Vec<(&'static str, &'static str)>,
    limits: Value,
}

const ALL: &[&str] = &["fail", "disable", "ignore"];

/// What no policy has a say in is tried with the mildest.
const ANY: &[&str] = &["ignore"];

fn case(fault: &'static str, hook: Value, policies: &'static [&'static str]) -> Case {
    Case {
        fault,
        hook,
        policies,
        environment: Vec::new(),
        limits: json!({}),
    }
}

/// A fault of the plugin that fails within the rules.
fn fails(fault: &'static str, at: &str, how: &str, policies: &'static [&'static str]) -> Case {
    let config = json!({"at": at, "how": how});
    case(fault, json!({"hook": "fault", "config": config}), policies)
}

/// A fault of the plugin that fails beyond them, in the second iteration.
fn wrecks(fault: &'static str, at: &str, how: &str, policies: &'static [&'static str]) -> Case {
    let after = if at == "after_iter" || at == "after_loss" {
        2
    } else {
        0
    };
    let number = if how == "leak" { 1e6 } else { 1.5 };
    let config = json!({"at": at, "how": how, "after_iteration": after, "number": number});
    case(
        fault,
        json!({"hook": "wrecker", "config": config}),
        policies,
    )
}

/// A fault of the plugin that was written without the API's generated code.
fn raw(fault: &'static str, how: &'static str, policies: &'static [&'static str]) -> Case {
    Case {
        environment: vec![("RAW", how)],
        ..case(fault, json!({"hook": "raw"}), policies)
    }
}

/// A fault of a constructor.
fn meddles(fault: &'static str, how: &'static str) -> Case {
    Case {
        environment: vec![("MEDDLE", how), ("SCONCE_LOAD_LIMIT", "1")],
        ..case(fault, json!({"hook": "meddler"}), ANY)
    }
}

fn limited(case: Case, limits: Value) -> Case {
    Case { limits, ..case }
}

fn sections() -> Vec<(&'static str, Vec<Case>)> {
    vec![
        (
            "When a library is opened",
            vec![
                meddles("a constructor crashes", "null"),
                meddles("it aborts", "abort"),
                meddles("it calls `exit(0)`", "exit"),
                meddles("it calls `_exit(0)`", "_exit"),
                meddles("it hangs", "hang"),
                meddles("it changes the current directory", "directory"),
                meddles("it takes over a signal", "signal"),
                meddles("it closes standard output", "close"),
                meddles("it prints to standard output", "print"),
                meddles("it changes the locale", "locale"),
                meddles("it switches denormal numbers off", "floats"),
                meddles("it starts a thread", "thread"),
                meddles("it blocks signals", "block"),
                meddles("it sets an alarm", "alarm"),
                meddles("it forks, and the copy comes back", "fork-back"),
                meddles("it crashes when the process exits", "exit-segv"),
                meddles("it ends the process with 0 when it exits", "exit-code"),
                meddles("it keeps the process from exiting", "exit-hang"),
                meddles("it crashes when the run's process exits", "late-exit-segv"),
                raw("the root module panics", "root-panic", ANY),
                raw(
                    "`describe` answers with what is not valid JSON",
                    "no-json",
                    ANY,
                ),
                raw("`describe` fails", "describe-fails", ANY),
                raw(
                    "`create` answers that all is well, without a hook",
                    "no-hook",
                    ANY,
                ),
            ],
        ),
        (
            "Errors and panics",
            vec![
                fails("a panic at a mount point", "after_iter", "panic", ALL),
                fails(
                    "a panic whose payload is not text",
                    "after_iter",
                    "panic-with-number",
                    ALL,
                ),
                fails("an error", "after_iter", "error", ALL),
                fails("an error of std's, passed on", "after_iter", "wrapped", ALL),
                fails(
                    "an error with a message of a megabyte",
                    "after_iter",
                    "long-error",
                    ALL,
                ),
                raw("an error with an empty message", "empty", ALL),
                raw("an error whose message is not UTF-8", "not-utf8", ALL),
                raw("an error with NUL and line breaks in it", "odd", ALL),
                raw("an error of an unknown code", "unknown-code", ALL),
                fails("a panic in `new`", "new", "panic", ANY),
                fails("an error in `new`", "new", "error", ANY),
                fails("a panic in `save_state`", "save_state", "panic", ALL),
                fails("a panic in `drop`", "drop", "panic", ALL),
                fails("a panic in `after_run`", "after_run", "panic", ALL),
                fails(
                    "a panic in a part on the host's threads",
                    "after_iter",
                    "panic-in-part",
                    ALL,
                ),
                wrecks(
                    "a panic on a thread of the hook's own",
                    "after_iter",
                    "thread-panic",
                    ANY,
                ),
            ],
        ),
        (
            "Crashes",
            vec![
                wrecks("a wild pointer (SIGSEGV)", "after_iter", "segv", ALL),
                wrecks("`raise(SIGSEGV)`", "after_iter", "raise-segv", ANY),
                wrecks("`raise(SIGBUS)`", "after_iter", "raise-bus", ANY),
                wrecks("`raise(SIGFPE)`", "after_iter", "raise-fpe", ANY),
                wrecks("`raise(SIGILL)`", "after_iter", "raise-ill", ANY),
                wrecks("`abort()`", "after_iter", "abort", ANY),
                wrecks("a panic within a panic", "after_iter", "double-panic", ANY),
                wrecks("a stack overflow", "after_iter", "stack-overflow", ANY),
                wrecks("an allocation of 64 TiB", "after_iter", "huge", ANY),
                wrecks("a crash in `new`", "new", "segv", ANY),
                wrecks("a crash in `save_state`", "save_state", "segv", ANY),
                wrecks("a crash in `drop`", "drop", "segv", ANY),
                wrecks(
                    "a crash on a thread of the hook's own",
                    "after_iter",
                    "thread-segv",
                    ANY,
                ),
            ],
        ),
        (
            "Exits",
            vec![
                wrecks("`exit(0)`", "after_iter", "exit", ANY),
                wrecks(
                    "`exit(0)` on a thread of the hook's own",
                    "after_iter",
                    "thread-exit",
                    ANY,
                ),
                wrecks("`quick_exit(0)`", "after_iter", "quick-exit", ANY),
                wrecks("`_exit(0)`", "after_iter", "_exit", ANY),
                wrecks("`exec`", "after_iter", "exec", ANY),
                wrecks(
                    "SIGKILL, as from a lack of memory",
                    "after_iter",
                    "kill",
                    ANY,
                ),
            ],
        ),
        (
            "Time",
            vec![
                limited(
                    wrecks(
                        "a hook that never comes back, with `limits.call` 1",
                        "after_iter",
                        "hang",
                        ALL,
                    ),
                    json!({"call": 1.0}),
                ),
                limited(
                    wrecks(
                        "an endless loop, with `limits.call` 1",
                        "after_iter",
                        "busy",
                        ANY,
                    ),
                    json!({"call": 1.0}),
                ),
                limited(
                    wrecks(
                        "a call of 1.5 s, with `limits.slow_call` 0.5",
                        "before_run",
                        "slow",
                        ANY,
                    ),
                    json!({"slow_call": 0.5}),
                ),
            ],
        ),
        (
            "What belongs to the whole process",
            vec![
                wrecks(
                    "`fork`: the copy comes back from the hook",
                    "after_iter",
                    "fork",
                    ANY,
                ),
                wrecks("`fork`: the copy crashes", "after_iter", "fork-segv", ANY),
                wrecks(
                    "`fork`: the copy calls `exit`",
                    "after_iter",
                    "fork-exit",
                    ANY,
                ),
                wrecks("denormal numbers switched off", "after_iter", "floats", ANY),
                wrecks("another current directory", "after_iter", "directory", ANY),
                wrecks("signals taken over", "after_iter", "take-signals", ANY),
                wrecks("printing to standard output", "before_run", "print", ANY),
                wrecks("standard output closed", "before_run", "close", ANY),
                wrecks("a thread left running", "before_run", "thread", ANY),
            ],
        ),
        (
            "Numbers, names, memory",
            vec![
                wrecks(
                    "a metric that is not a number",
                    "after_loss",
                    "nan-metric",
                    ANY,
                ),
                wrecks("an infinite metric", "after_loss", "infinite-metric", ANY),
                wrecks(
                    "a metric with an empty name",
                    "after_loss",
                    "empty-metric-name",
                    ANY,
                ),
                wrecks(
                    "a metric with line breaks and NUL in its name",
                    "after_loss",
                    "odd-metric-name",
                    ANY,
                ),
                wrecks(
                    "a metric with a name of a megabyte",
                    "after_loss",
                    "long-metric-name",
                    ANY,
                ),
                wrecks(
                    "a write to a tensor that is lent for reading",
                    "after_loss",
                    "write-read-only",
                    ANY,
                ),
                wrecks("memory that is never given back", "after_loss", "leak", ANY),
            ],
        ),
    ]
}

/// What a run left.
struct Row {
    said: String,
    code: String,
    end: &'static str,
    checkpoint: &'static str,
    log: &'static str,
}

fn run(case: &Case, policy: &str) -> Row {
    let plugins = ["recorder", "faults", "wrecker", "raw", "meddler"];
    let plugins = plugins.map(|name| format!("sconce-fixture-{name}"));
    let place = Workplace::new(&plugins.each_ref().map(String::as_str));
    let mut bad = case.hook.clone();
    bad["name"] = json!("bad");
    bad["on_error"] = json!(policy);
    let saver = json!({"hook": "asker", "config": {
        "at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "early", "once": true}});
    let manifest = edit(tiny(), "/hooks", json!([saver, bad, "recorder"]));
    place.write(&edit(manifest, "/limits", case.limits.clone()));
    let finished = place.sconce_in(&["run", "manifest.json"], &case.environment);
    Row {
        said: said(&finished, &place),
        code: match finished.code {
            -1 => "a signal".to_owned(),
            code => code.to_string(),
        },
        end: end(&place),
        checkpoint: checkpoint(&place),
        log: log(&place),
    }
}

/// The first line of the first error, or else of the first warning.
fn said(finished: &Finished, place: &Workplace) -> String {
    let lines = || finished.stderr.lines();
    let line = lines()
        .find(|line| line.starts_with("error: ") || line.starts_with("sconce: "))
        .or_else(|| lines().find(|line| line.starts_with("warning: ")));
    let Some(line) = line else {
        return "nothing".to_owned();
    };
    let directory = place.directory().to_string_lossy().into_owned();
    let line = line
        .replace(&format!("{directory}/"), "")
        .replace("plugins/lib", "lib");
    // Both backslashes and bars are table syntax.
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    let line = line.replace('\\', "\\\\").replace('|', "\\|");
    if line.chars().count() <= 150 {
        return line;
    }
    let head: String = line.chars().take(140).collect();
    format!("{head}…")
}

/// What the other hooks were told of the end.
fn end(place: &Workplace) -> &'static str {
    let text = std::fs::read_to_string(place.path("out/record.jsonl")).unwrap_or_default();
    if !place.path("out/manifest.json").exists() {
        return "no run";
    }
    match text.lines().last() {
        Some(line) if line.contains("\"after_run\"") && line.contains("completed") => "completed",
        Some(line) if line.contains("\"after_run\"") && line.contains("failed") => "failed",
        Some(_) => "nothing",
        None => "no run",
    }
}

fn checkpoint(place: &Workplace) -> &'static str {
    let path = place.path("out/checkpoints/early");
    match sconce::checkpoint::read(&path) {
        Err(sconce::checkpoint::CheckpointError::Missing { .. }) => "none yet",
        Ok(_) => "whole",
        Err(_) => "**broken**",
    }
}

fn log(place: &Workplace) -> &'static str {
    let text = std::fs::read_to_string(place.path("out/record.jsonl")).unwrap_or_default();
    let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
    match text.lines().all(is_json) {
        _ if text.is_empty() => "none yet",
        true if text.ends_with('\n') => "whole",
        _ => "**torn**",
    }
}

fn tables() -> String {
    let mut page = String::new();
    for (title, cases) in sections() {
        let _ = write!(
            page,
            "\n### {title}\n\n| fault | `on_error` | what is said first | exit | others are told | checkpoint | log |\n\
             |---|---|---|---|---|---|---|\n"
        );
        for case in cases {
            for policy in case.policies {
                let row = run(&case, policy);
                let policy = if case.policies == ANY { "any" } else { policy };
                let _ = writeln!(
                    page,
                    "| {} | {policy} | {} | {} | {} | {} | {} |",
                    case.fault, row.said, row.code, row.end, row.checkpoint, row.log
                );
                assert!(
                    !row.checkpoint.contains("broken") && !row.log.contains("torn"),
                    "{}: nothing may be lost",
                    case.fault
                );
            }
        }
    }
    page.push('\n');
    page
}

#[test]
fn the_page_says_what_becomes_of_each_fault() {
    let file = workspace().join("docs/faults.md");
    let kept = std::fs::read_to_string(&file).expect("docs/faults.md is there");
    let (head, rest) = kept.split_once(BEGIN).expect("the page has the first mark");
    let (_, tail) = rest.split_once(END).expect("the page has the second mark");
    let page = format!("{head}{BEGIN}\n{}{END}{tail}", tables());
    assert_file(file, &page);
}
