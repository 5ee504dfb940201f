//! What is printed: all of it arrives or the command says so, and none of it steers the terminal.

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

/// Clears the screen, changes colours in two ways, begins a line that looks like the host's, and turns
/// the direction of writing.
const HOSTILE: &str = "\x1b[2J\x1b[31m\u{9b}2K\r\nerror: forged\u{202e}\u{2066}";

fn steers(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() && c != '\n' && c != '\t'
}

/// Asserts that a text neither steers a terminal nor has a forged line.
#[track_caller]
fn is_tame(what: &str, text: &str) {
    let found = text.find(steers);
    assert_eq!(found, None, "{what}: {text:?}");
    let forged = text.lines().find(|line| line.starts_with("error: forged"));
    assert_eq!(forged, None, "{what}: {text}");
}

#[test]
fn texts_of_hooks_carry_their_names_and_steer_nothing() {
    let place = Workplace::new(&["sconce-fixture-faults"]);
    for (what, code, marks) in [
        ("info", 0, &["\nbad: error: forged\\u{202e}"][..]),
        (
            "warn",
            0,
            &[
                "\nwarning: bad: \\u{1b}[2J",
                "\nwarning: bad: error: forged",
            ],
        ),
        (
            "fail",
            4,
            &["error: hook `bad` failed", "bad: error: forged"],
        ),
        (
            "panic",
            4,
            &["error: hook `bad` panicked", "bad: error: forged"],
        ),
        ("stop", 0, &[]),
        ("save_checkpoint", 4, &["error: hook `bad` failed"]),
        ("freeze", 4, &["error: hook `bad` failed"]),
        ("publish", 4, &["error: hook `bad` failed"]),
    ] {
        let config = json!({"at": "before_iter", "what": what, "text": HOSTILE, "once": true});
        let config = edit(
            config,
            "/at",
            json!(if what == "publish" {
                "after_iter"
            } else {
                "before_iter"
            }),
        );
        let hook = json!({"hook": "asker", "name": "bad", "config": config});
        place.write(&edit(tiny(), "/hooks", json!([hook])));
        let run = ["run", "manifest.json", "--overwrite", "--output"];
        let finished = place.sconce(&[&run[..], &[what]].concat());
        let finished = finished.expect(code, marks);
        is_tame(what, &finished.stderr);
        is_tame(what, &finished.stdout);
        if what == "stop" {
            let words = "stopped by `bad` (\\u{1b}[2J\\u{1b}[31m\\u{9b}2K\\r\\nerror: forged";
            assert!(finished.stdout.contains(words), "{}", finished.stdout);
        }
        // The same through JSON: the text is what the hook said.
        let json = [&run[..], &["json", "--log-format", "json"]].concat();
        if what == "warn" {
            let finished = place.sconce(&json).expect(0, &[]);
            is_tame("json", &finished.stderr);
            let said = finished.stderr.lines().filter_map(|line| {
                let line: Value = serde_json::from_str(line).ok()?;
                (line["source"] == "bad").then(|| line["message"] == HOSTILE)
            });
            assert_eq!(said.collect::<Vec<_>>(), [true]);
        }
    }
    let runs = place.sconce(&["runs", "."]).expect(0, &[]);
    is_tame("runs", &runs.stdout);
    let runs = place.sconce(&["runs", ".", "--json"]).expect(0, &[]);
    is_tame("runs --json", &runs.stdout);
}

#[test]
fn names_in_data_steer_nothing_and_are_no_formulas() {
    let place = Workplace::new(&[]);
    let classes = [HOSTILE, "=cmd|' /C calc'!A0", "-2+3"];
    let rows = (0..30).map(|row| format!("{row},\"{}\"\n", classes[row % 3]));
    let text = format!("\"@SUM(1)\",\"y\x1b[2J\"\n{}", rows.collect::<String>());
    place.write_text("data.csv", &text);
    let data = json!({"kind": "csv", "file": "data.csv", "target": "y\x1b[2J"});
    let mut manifest = edit(tiny(), "/data", data);
    manifest["name"] = json!(format!("run{HOSTILE}"));
    place.write(&manifest);
    let weights = ["--checkpoint", "out/weights.safetensors"];
    for (arguments, weights) in [
        (&["check", "manifest.json"][..], &[][..]),
        (&["run", "manifest.json"], &[]),
        (&["summary", "manifest.json"], &[]),
        (&["eval", "manifest.json", "--phase", "train"], &weights),
        (
            &["eval", "manifest.json", "--phase", "train", "--json"],
            &weights,
        ),
        (&["predict", "manifest.json", "--phase", "train"], &weights),
        (
            &[
                "predict",
                "manifest.json",
                "--phase",
                "train",
                "--format",
                "csv",
            ],
            &weights,
        ),
        (&["runs", "."], &[]),
        (&["runs", ".", "--json"], &[]),
        (&["compare", "out", "out"], &[]),
        (&["compare", "out", "out", "--json"], &[]),
    ] {
        let finished = place.sconce(&[arguments, weights].concat()).expect(0, &[]);
        is_tame(&format!("{arguments:?}"), &finished.stderr);
        if !arguments.contains(&"csv") {
            is_tame(&format!("{arguments:?}"), &finished.stdout);
            continue;
        }
        assert_eq!(finished.stdout.find(steers), None, "{:?}", finished.stdout);
        for text in [
            ",probability of =cmd|' /C calc'!A0",
            ",'=cmd|' /C calc'!A0,",
        ] {
            assert!(finished.stdout.contains(text), "{}", finished.stdout);
        }
        for formula in [",=", ",-2", ",\"=", "\n=", ",@"] {
            assert!(!finished.stdout.contains(formula), "{}", finished.stdout);
        }
    }
    place.write(&edit(
        manifest,
        "/data/file",
        json!("no\x1b[2J\nerror: forged"),
    ));
    let finished = place.sconce(&["check", "manifest.json"]);
    let finished = finished.expect(2, &["no\\u{1b}[2J"]);
    is_tame("a file's name", &finished.stderr);
}

#[test]
fn metadata_of_plugins_and_forged_runs_steer_nothing() {
    let place = Workplace::new(&[]);
    let library = place.add_plugin("sconce-plugin-csv", "genuine");
    let mut bytes = std::fs::read(&library).expect("read");
    let about = b"Writes a row of metrics per epoch";
    let hostile = b"Writes \\u001b[2J\\nerror: forged \\u";
    let hostile = [&hostile[..about.len() - 2], b"!!"].concat();
    let places: Vec<usize> = (0..bytes.len() - about.len())
        .filter(|&place| bytes[place..].starts_with(about))
        .collect();
    assert!(!places.is_empty(), "the text is in the file");
    for start in places {
        bytes[start..start + about.len()].copy_from_slice(&hostile);
    }
    std::fs::create_dir(place.path("forged")).expect("made");
    let name = format!(
        "forged/{}",
        library.file_name().expect("a name").to_string_lossy()
    );
    std::fs::write(place.path(&name), bytes).expect("written");

    let run = place.path("runs/a");
    std::fs::create_dir_all(&run).expect("made");
    let manifest = json!({"name": HOSTILE, "train": {"epochs": HOSTILE}, HOSTILE: HOSTILE});
    place.write_text("runs/a/manifest.json", &manifest.to_string());
    let record = json!({"outcome": HOSTILE, "metrics": {"val": {HOSTILE: 1.0, "loss": 0.5}}});
    place.write_text("runs/a/run.json", &record.to_string());
    place.write_text("runs/a/val.csv", &format!("epoch,\"{HOSTILE}\"\n1,0.5\n"));
    std::fs::create_dir_all(place.path("runs/b")).expect("made");
    place.write_text("runs/b/manifest.json", &tiny().to_string());
    for (arguments, words) in [
        (
            &["plugins", "forged"][..],
            "Writes \\u{1b}[2J\\nerror: forged",
        ),
        (
            &["plugins", "forged", "--json"],
            "Writes \\u001b[2J\\nerror: forged",
        ),
        (&["inspect", &name], "Writes \\u{1b}[2J\\nerror: forged"),
        (
            &["inspect", &name, "--json"],
            "Writes \\u001b[2J\\nerror: forged",
        ),
        (
            &["runs"],
            "\\u{1b}[2J\\u{1b}[31m\\u{9b}2K\\r\\nerror: forged",
        ),
        (
            &["runs", "--json"],
            "\\u001b[31m\\u009b2K\\r\\nerror: forged\\u202e",
        ),
        (
            &["compare", "runs/a", "runs/b"],
            "\\u{9b}2K\\r\\nerror: forged",
        ),
        (
            &["compare", "runs/a", "runs/b", "--json"],
            "\\u009b2K\\r\\nerror: forged",
        ),
        (&["board", "--export", "board.html"], "1 run in board.html"),
    ] {
        let finished = place.sconce(arguments).expect(0, &[]);
        is_tame(&format!("{arguments:?}"), &finished.stdout);
        is_tame(&format!("{arguments:?}"), &finished.stderr);
        assert!(finished.stdout.contains(words), "{}", finished.stdout);
    }
}

#[cfg(target_os = "linux")]
mod unwritable {
    use std::fs::File;
    use std::process::{Command, Stdio};

    use super::*;

    /// A run's directory, weights and a second run, for the commands that read some.
    fn prepared() -> Workplace {
        let place = Workplace::new(&["sconce-plugin-csv"]);
        place.add_plugin("sconce-plugin-sockets", "transports");
        place.run(&tiny()).expect(0, &[]);
        place
    }

    /// Every way to print: each subcommand, in each of its forms.
    fn commands(library: &str) -> Vec<Vec<&str>> {
        let weights = ["--checkpoint", "out/weights.safetensors"];
        let mut all: Vec<Vec<&str>> = [
            "--help",
            "--version",
            "help run",
            "run --help",
            "demo --epochs 1",
            "new-plugin my-hook",
            "new-run new.json --yes --task digits",
            "run manifest.json --output again",
            "check manifest.json",
            "summary manifest.json",
            "plugins plugins",
            "plugins plugins --json",
            "install-plugins --from plugins --to there --dry-run",
            "install-plugins --from plugins --to there --dry-run --json",
            "schema --plugins plugins",
            "runs .",
            "runs . --json",
            "compare out out",
            "compare out out --json",
            "board . --export board.html",
            "env",
            "env --json",
            "docs --no-open",
            "export out --output model.onnx",
            "tokenize manifest.json --train 300 --output tokens",
            "team",
            "team --json",
            "launch -n 2 --check -- --plugins transports",
            "header",
            "header c++",
            "trust list",
            "trust list --json",
            "completions bash",
            "validate --list",
            "validate --list --json",
        ]
        .map(|words| words.split(' ').collect())
        .to_vec();
        for more in [
            &["eval"][..],
            &["eval", "--json"],
            &["predict"],
            &["predict", "--format", "csv"],
            &["probe"],
            &["probe", "--json"],
        ] {
            all.push([&more[..1], &["manifest.json"], &more[1..], &weights].concat());
        }
        all.push(vec!["inspect", library]);
        all.push(vec!["inspect", library, "--json"]);
        all.push(vec!["validate", library, "--only", "file.*"]);
        all.push(vec!["validate", library, "--only", "file.*", "--json"]);
        all
    }

    fn library(place: &Workplace) -> String {
        let mut files = std::fs::read_dir(place.path("plugins")).expect("listed");
        let file = files.next().expect("a library").expect("its name");
        format!("plugins/{}", file.file_name().to_string_lossy())
    }

    /// What a command does with this standard output: exit code and standard error.
    fn with_output(mut command: Command, output: Stdio) -> (i32, String) {
        command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::piped());
        let done = command.output().expect("started");
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.code().unwrap_or(-1), errors)
    }

    #[test]
    fn a_full_device_is_reported_by_every_command() {
        let place = prepared();
        let library = library(&place);
        let all = commands(&library);
        // A subcommand that is new is tried too, or this fails.
        let help = place.sconce(&["--help"]).expect(0, &[]).stdout;
        let (_, listed) = help.split_once("Commands:").expect("a list");
        let listed = listed
            .lines()
            .skip(1)
            .take_while(|line| line.starts_with("  "))
            // The rest of a long description is further to the right.
            .filter(|line| !line.starts_with("   "));
        let names: Vec<&str> = listed
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert!(names.len() > 10, "{names:?}");
        for name in names {
            // Pages go into files, a reload is asked of a run that is going on, two are for runs of other models, and trials are a lot of work.
            let is_tried = ["man", "reload", "generate", "merge", "sweep"].contains(&name)
                || all.iter().any(|words| words[0] == name);
            assert!(is_tried, "`{name}` is not in the table");
        }
        for words in &all {
            let full = File::options()
                .write(true)
                .open("/dev/full")
                .expect("opened");
            let (code, errors) = with_output(place.command(words), full.into());
            assert_eq!(code, 7, "{words:?}: {errors}");
            let told = "error: standard output can't be written: No space left on device";
            assert!(errors.contains(told), "{words:?}: {errors}");
        }
        // The training itself was done, and its results are there.
        assert!(place.read("again/run.json").contains("completed"));
        assert!(place.path("again/weights.safetensors").is_file());
        // A failure of its own stays what it is.
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("opened");
        let (code, _) = with_output(place.command(&["check", "nowhere.json"]), full.into());
        assert_eq!(code, 2);
    }

    #[test]
    fn pages_of_the_manual_on_a_full_device_are_an_error() {
        let place = Workplace::new(&[]);
        std::fs::create_dir(place.path("man")).expect("made");
        std::os::unix::fs::symlink("/dev/full", place.path("man/sconce.1")).expect("linked");
        place
            .sconce(&["man", "man"])
            .expect(7, &["No space left on device"]);
    }

    #[test]
    fn a_closed_output_is_reported_and_a_closed_pipe_is_not() {
        let place = prepared();
        let library = library(&place);
        for words in commands(&library).iter().skip(2).step_by(4) {
            // `new-plugin`, `new-run` and `run` have been here.
            for directory in ["my-hook", "again"] {
                drop(std::fs::remove_dir_all(place.path(directory)));
            }
            drop(std::fs::remove_file(place.path("new.json")));
            let mut closed = Command::new("sh");
            let command = place.command(words);
            closed
                .args(["-c", "exec \"$0\" \"$@\" >&-"])
                .arg(command.get_program())
                .args(command.get_args())
                .current_dir(place.directory());
            let (code, errors) = with_output(closed, Stdio::null());
            assert_eq!(code, 7, "{words:?}: {errors}");
            assert!(
                errors.contains("standard output can't be written: it was closed"),
                "{errors}"
            );

            for directory in ["my-hook", "again"] {
                drop(std::fs::remove_dir_all(place.path(directory)));
            }
            drop(std::fs::remove_file(place.path("new.json")));
            let mut command = place.command(words);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().expect("started");
            drop(child.stdout.take());
            let done = child.wait_with_output().expect("waited");
            let errors = String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!(done.status.code(), Some(0), "{words:?}: {errors}");
            assert!(!errors.contains("standard output"), "{words:?}: {errors}");
        }
        // A descriptor that can only be read.
        let read_only = File::open("/dev/null").expect("opened");
        let (code, errors) =
            with_output(place.command(&["check", "manifest.json"]), read_only.into());
        assert_eq!(
            (code, errors.contains("Bad file descriptor")),
            (7, true),
            "{errors}"
        );
    }
}
