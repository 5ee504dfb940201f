//! `sconce validate`: good plugins pass, bad ones fail in the tests that are meant for them.

use std::fmt::Write;

use sconce_tests::generated::assert_file;
use sconce_tests::{Finished, Workplace, workspace};
use serde_json::{Value, json};

const BEGIN: &str = "<!-- written by tests/people/validate.rs: begin -->";
const END: &str = "<!-- written by tests/people/validate.rs: end -->";

const FAULTS: &str = "sconce-fixture-faults";
const WRECKER: &str = "sconce-fixture-wrecker";

/// Runs tests of the suite on a plugin: the exit code, and the object that it prints.
fn validate(place: &Workplace, package: &str, arguments: &[&str]) -> (i32, Value) {
    let library = place.add_plugin(package, "plugins");
    let library = library.to_string_lossy().into_owned();
    let mut all = vec!["validate", &library, "--json", "--seed", "1"];
    all.extend(arguments);
    let Finished {
        code,
        stdout,
        stderr,
    } = place.sconce(&all);
    let object = serde_json::from_str(&stdout);
    (
        code,
        object.unwrap_or_else(|_| panic!("{stdout}\n{stderr}")),
    )
}

/// What came of a test: the verdict and the facts.
fn result<'a>(object: &'a Value, test: &str) -> (&'a str, &'a str) {
    let runs = object["tests"].as_array().expect("a list");
    let run = runs.iter().find(|run| run["test"] == test);
    let run = run.unwrap_or_else(|| panic!("`{test}` was not run: {object:#}"));
    let member = |key: &str| run[key].as_str().unwrap_or_default();
    (member("verdict"), member("facts"))
}

/// A fixture that misbehaves as its configuration says fails this test, with these words.
#[track_caller]
fn fails(package: &str, hook: &str, config: &Value, test: &str, words: &[&str]) {
    let place = Workplace::new(&[]);
    let config = config.to_string();
    let arguments = [
        "--hook",
        hook,
        "--config",
        &config,
        "--only",
        test,
        "--timeout",
        "30",
    ];
    let (code, object) = validate(&place, package, &arguments);
    let (verdict, facts) = result(&object, test);
    assert_eq!((code, verdict), (3, "failed"), "{test}: {facts}");
    for word in words {
        assert!(facts.contains(word), "no {word:?} in {facts}");
    }
}

#[test]
fn a_good_plugin_passes_everything() {
    let place = Workplace::new(&[]);
    for package in ["sconce-plugin-csv", "sconce-plugin-stop-after"] {
        let (code, object) = validate(&place, package, &["--level", "strict"]);
        assert_eq!(code, 0, "{object:#}");
        assert_eq!(object["summary"]["failed"], 0, "{object:#}");
        assert_eq!(object["seed"], 1);
        let (verdict, facts) = result(&object, "file.structure");
        assert!(verdict == "passed" && facts.contains(package), "{facts}");
        assert_eq!(result(&object, "lifecycle.run").0, "passed", "{object:#}");
    }
}

/// Runs tests of the suite on a plugin in C; `None` where there is no compiler.
fn validate_c(source: &str, flags: &[&str], arguments: &[&str]) -> Option<Finished> {
    let place = Workplace::new(&[]);
    let library = place.add_c_plugin(source, flags)?;
    let library = library.to_string_lossy().into_owned();
    let all = [&["validate", &library, "--seed", "1"], arguments].concat();
    Some(place.sconce(&all))
}

#[test]
fn the_example_in_c_passes_everything() {
    let arguments = ["--level", "strict", "--json"];
    let Some(finished) = validate_c("examples/clip-in-c/clip.c", &[], &arguments) else {
        return;
    };
    let object: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert_eq!(finished.code, 0, "{object:#}");
    assert_eq!(object["summary"]["failed"], 0, "{object:#}");
    assert_eq!(object["summary"]["warning"], 0, "{object:#}");
    for test in [
        "lifecycle.points",
        "state.resume",
        "state.damaged",
        "config.not-json",
    ] {
        assert_eq!(result(&object, test).0, "passed", "{object:#}");
    }
}

#[test]
fn in_c_the_points_of_metadata_and_code_are_compared() {
    for (flag, code, verdict, words) in [
        (
            "-DAT=SCONCE_AT(BEFORE_ITER, \"before_iter\")",
            3,
            "failed",
            "the metadata lists a point that `call` does not know",
        ),
        (
            "-DAT=SCONCE_AT(AFTER_ITER, \"after_itr\")",
            3,
            "failed",
            "calls the point 8 `after_itr`, it is `after_iter`",
        ),
        ("-DLAX", 0, "warning", "SCONCE_UNSUPPORTED at `before_run`"),
        ("-DENTRY=-1", 0, "passed", "1 points"),
    ] {
        let arguments = ["--only", "lifecycle.points", "--json"];
        let Some(finished) = validate_c("tests/c/faulty.c", &[flag], &arguments) else {
            return;
        };
        let object: Value = serde_json::from_str(&finished.stdout).expect("JSON");
        let (found, facts) = result(&object, "lifecycle.points");
        assert_eq!((finished.code, found), (code, verdict), "{flag}: {facts}");
        assert!(facts.contains(words), "{flag}: {facts}");
    }
}

#[test]
fn advice_about_a_plugin_in_c_is_about_c() {
    let arguments = ["--only", "config.unknown-keys"];
    let Some(finished) = validate_c("tests/c/faulty.c", &[], &arguments) else {
        return;
    };
    let advice =
        "what to do:\n  config.unknown-keys (faulty): Write `\"additionalProperties\": false`";
    let out = &finished.stdout;
    assert!(finished.code == 3 && out.contains(advice), "{out}");
    assert!(!out.contains("serde"), "{out}");
}

#[test]
fn a_panic_fails_the_test_that_meets_it() {
    for (method, test) in [
        ("new", "lifecycle.run"),
        ("after_iter", "lifecycle.run"),
        ("drop", "lifecycle.create-drop"),
        ("save_state", "lifecycle.run"),
        ("load_state", "state.round-trip"),
        ("on_exception", "lifecycle.exception"),
    ] {
        let config = json!({"at": method});
        let words = format!("told to panic at {method}");
        fails(FAULTS, "fault", &config, test, &[&words]);
    }
}

#[test]
fn what_ends_the_process_ends_one_test_and_is_named() {
    for (how, words) in [
        ("segv", "crashed (SIGSEGV) during the run `run`"),
        ("abort", "SIGABRT"),
        ("exit", "exited with 0 without an answer"),
        ("_exit", "exited with 0 without an answer"),
        ("stack-overflow", "SIGSEGV"),
    ] {
        let config = json!({"at": "after_iter", "how": how});
        fails(WRECKER, "wrecker", &config, "lifecycle.run", &[words]);
    }
}

#[test]
fn a_hang_ends_one_test_and_the_next_one_begins() {
    let place = Workplace::new(&[]);
    let config = json!({"at": "before_run", "how": "hang"}).to_string();
    let arguments = [
        "--config",
        &config,
        "--only",
        "lifecycle.{run,stop}",
        "--timeout",
        "3",
    ];
    let (code, object) = validate(&place, WRECKER, &arguments);
    assert_eq!(code, 3);
    for test in ["lifecycle.run", "lifecycle.stop"] {
        let (verdict, facts) = result(&object, test);
        let is_told = facts.contains("not done after 3 s");
        assert!(verdict == "failed" && is_told, "{facts}");
    }
}

#[test]
fn what_hooks_do_behind_the_hosts_back_is_found() {
    for (how, test, words) in [
        (
            "write-read-only",
            "purity.bits",
            "other bits, though it asked for nothing",
        ),
        ("leak", "speed.memory", "bytes an iteration"),
        (
            "print",
            "lifecycle.leaves-nothing",
            "prints to standard output",
        ),
        ("thread", "lifecycle.leaves-nothing", "threads stay open"),
        ("directory", "lifecycle.leaves-nothing", "current directory"),
        ("floats", "lifecycle.leaves-nothing", "that was undone"),
    ] {
        let config = json!({"at": "after_iter", "how": how, "number": 1e5});
        fails(WRECKER, "wrecker", &config, test, &[words]);
    }
}

#[test]
fn what_a_library_does_when_it_is_opened_is_found() {
    for (package, variable, how, test, verdict, words) in [
        (
            "sconce-fixture-meddler",
            "MEDDLE",
            "null",
            "file.opens",
            "failed",
            "crashed (SIGSEGV)",
        ),
        (
            "sconce-fixture-meddler",
            "MEDDLE",
            "exit",
            "file.opens",
            "failed",
            "without an answer",
        ),
        (
            "sconce-fixture-meddler",
            "MEDDLE",
            "hang",
            "file.opens",
            "failed",
            "not done after 3 s",
        ),
        (
            "sconce-fixture-meddler",
            "MEDDLE",
            "thread",
            "file.opens",
            "failed",
            "started 1 thread",
        ),
        (
            "sconce-fixture-meddler",
            "MEDDLE",
            "print",
            "file.opens",
            "warning",
            "it prints",
        ),
        (
            "sconce-fixture-raw",
            "RAW",
            "root-panic",
            "file.opens",
            "failed",
            "root module failed",
        ),
        (
            "sconce-fixture-raw",
            "RAW",
            "no-json",
            "file.description",
            "failed",
            "describe itself",
        ),
        (
            "sconce-fixture-raw",
            "RAW",
            "no-hook",
            "lifecycle.run",
            "skipped",
            "describes no configuration",
        ),
    ] {
        let place = Workplace::new(&[]);
        let library = place.add_plugin(package, "plugins");
        let library = library.to_string_lossy().into_owned();
        let arguments = [
            "validate",
            &library,
            "--json",
            "--only",
            test,
            "--timeout",
            "3",
        ];
        let finished = place.sconce_in(&arguments, &[(variable, how)]);
        let object: Value = serde_json::from_str(&finished.stdout).expect("JSON");
        let (found, facts) = result(&object, test);
        let code = if verdict == "failed" { 3 } else { 0 };
        assert_eq!((finished.code, found), (code, verdict), "{how}: {facts}");
        assert!(facts.contains(words), "{how}: no {words:?} in {facts}");
    }
}

#[test]
fn a_file_that_is_no_plugin_fails_and_the_rest_is_skipped() {
    let place = Workplace::new(&[]);
    place.write_text("libnothing.so", "nothing");
    let finished = place.sconce(&["validate", "libnothing.so", "--json"]);
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    let object: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert_eq!(result(&object, "file.structure").0, "failed");
    assert_eq!(result(&object, "file.opens").0, "skipped");
    assert!(object["plugin"]["refused"].is_string(), "{object:#}");
}

#[test]
fn results_say_what_to_do_and_how_to_have_them_again() {
    let place = Workplace::new(&[]);
    let file = place.add_plugin(FAULTS, "plugins");
    let file = file.to_string_lossy().into_owned();
    let config = r#"{"at": "after_run", "how": "error"}"#;
    let test = "lifecycle.run";
    let finished = place.sconce(&[
        "validate", &file, "--hook", "fault", "--only", test, "--seed", "7", "--config", config,
    ]);
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    let again = format!("--only {test} --hook fault --config '{config}' --seed 7");
    for words in [
        "sconce-fixture-faults 0.1.0 in ",
        "hook `fault`",
        "failed   lifecycle.run",
        "told to fail at after_run",
        "1 tests: 0 passed, 0 skipped, 0 warning, 1 failed",
        "what to do:",
        &again,
    ] {
        let out = &finished.stdout;
        assert!(out.contains(words), "no {words:?} in:\n{out}");
    }
}

#[test]
fn a_hook_that_refuses_what_was_made_up_for_it_needs_a_configuration() {
    let place = Workplace::new(&[]);
    let file = place.add_plugin("sconce-plugin-python", "plugins");
    let file = file.to_string_lossy().into_owned();
    let finished = place.sconce(&["validate", &file, "--only", "lifecycle.{run,create-drop}"]);
    let out = &finished.stdout;
    let words = "what to do:\n  the hook `python` refuses the configuration that was made up for it: give one with \
                 `--config`\n    again: ";
    assert!(finished.code == 0 && out.contains(words), "{out}");
    assert_eq!(out.matches("refuses the configuration").count(), 1, "{out}");
}

#[test]
fn wrong_command_lines_are_reported() {
    let place = Workplace::new(&[]);
    let file = place.add_plugin("sconce-plugin-csv", "plugins");
    let file = file.to_string_lossy().into_owned();
    place.write_text("hook.py", "import sconce\n");
    let cases: [(&[&str], &str); 8] = [
        (&["nowhere.so"], "there is no file `nowhere.so`"),
        (
            &["hook.py"],
            r#"libsconce_plugin_python.so --hook python --config '{"file":"hook.py"}'`"#,
        ),
        (&[&file, "--hook", "cvs"], "did you mean `csv`?"),
        (
            &[&file, "--only", "state.resum"],
            "did you mean `state.resume`?",
        ),
        (&[&file, "--config", "{"], "not valid JSON"),
        (&[&file, "--level", "lax"], "expected a number from 1 to 10"),
        (&[&file, "--timeout", "0"], "not a time"),
        (&[], "<LIBRARY>"),
    ];
    for (arguments, words) in cases {
        let all: Vec<&str> = (["validate"].iter().chain(arguments)).copied().collect();
        place.sconce(&all).expect(2, &[words]);
    }
    let listed = place.sconce(&["validate", "--list", "--level", "basic"]);
    let listed = listed.expect(0, &[]).stdout;
    assert!(listed.contains("state.round-trip") && !listed.contains("state.damaged"));
}

fn tables() -> String {
    let mut page = String::new();
    for group in sconce::validate::groups() {
        let _ = write!(
            page,
            "\n### {}: {}\n\n| test | level | what must hold | where it fails |\n|---|---|---|---|\n",
            group.name, group.about
        );
        for test in group.tests {
            let (name, level, about, advice) = (test.name, test.level, test.about, test.advice);
            let _ = writeln!(page, "| `{name}` | {level} | {about} | {advice} |");
        }
    }
    page.push('\n');
    page
}

/// `UPDATE_EXPECT=1 cargo test -p sconce-tests --test people validate` rewrites the page.
#[test]
fn the_page_lists_the_tests() {
    let file = workspace().join("docs/validating.md");
    let kept = std::fs::read_to_string(&file).expect("docs/validating.md is there");
    let (head, rest) = kept.split_once(BEGIN).expect("the page has the first mark");
    let (_, tail) = rest.split_once(END).expect("the page has the second mark");
    let page = format!("{head}{BEGIN}\n{}{END}{tail}", tables());
    assert_file(file, &page);
}
