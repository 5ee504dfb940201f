//! Every command that the README and the first pages name does what they say of it.

mod known;

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use sconce_tests::{
    Workplace, artifacts, cargo_outside, edit, lock_versions, outside_target, tiny, workspace,
};
use serde_json::json;

use known::{Does, PAGES};

/// The commands of a page: the lines of its blocks for shells, and what stands in backquotes and begins like one.
fn commands(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut block = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), block) {
            (Some(_), Some(_)) => block = None,
            (Some(language), None) => block = Some(language == "sh"),
            (None, Some(true)) => found.push(without_comment(line).to_owned()),
            (None, Some(false)) => {}
            (None, None) => found.extend(quoted(line).filter(is_command).map(str::to_owned)),
        }
    }
    let mut commands: Vec<String> = Vec::new();
    for command in found.into_iter().filter(|command| !command.is_empty()) {
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    commands
}

/// What stands in backquotes in a line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_command(quoted: &&str) -> bool {
    let options = ["--limit-train ", "--overfit "];
    quoted.starts_with("sconce ") || options.iter().any(|option| quoted.starts_with(option))
}

fn without_comment(line: &str) -> &str {
    line.split_once(" #")
        .map_or(line, |(command, _)| command)
        .trim()
}

/// A place as the pages suppose it: a checkout after its build, with a run that was stopped.
struct Checkout {
    place: Workplace,
    /// Where the page has gone by `cd`.
    directory: PathBuf,
}

impl Checkout {
    fn new() -> Checkout {
        let place = Workplace::new(&[]);
        let release = place.path("target/release");
        fs::create_dir_all(&release).expect("made");
        for entry in fs::read_dir(artifacts().directory()).expect("the built files") {
            let file = entry.expect("an entry").path();
            let name = file.file_name().unwrap_or_default().to_os_string();
            let text = name.to_string_lossy();
            let is_plugin = text.starts_with(&format!("{DLL_PREFIX}sconce_plugin_"))
                && text.ends_with(DLL_SUFFIX)
                && !text.contains("macros");
            if is_plugin || file == artifacts().sconce() {
                let target = release.join(&name);
                fs::hard_link(&file, &target)
                    .or_else(|_| fs::copy(&file, &target).map(drop))
                    .expect("copied");
            }
        }
        #[cfg(unix)]
        for directory in ["docs", "plugin-api"] {
            std::os::unix::fs::symlink(workspace().join(directory), place.path(directory))
                .expect("a link");
        }
        let digits = "examples/digits/run.json";
        fs::create_dir_all(place.path("examples/digits")).expect("made");
        fs::copy(workspace().join(digits), place.path(digits)).expect("copied");
        let stop = json!({"hook": "stop-after", "config": {"epochs": 1}});
        let save = json!({"hook": "checkpoint", "config": {"epochs": 1}});
        let manifest = edit(tiny(), "/hooks", json!(["console", "csv", save, stop]));
        let manifest = edit(manifest, "/plugins", json!(["target/release"]));
        let manifest = edit(manifest, "/name", json!("mine"));
        let manifest = edit(manifest, "/output", json!("runs/mine"));
        place.write_text("mine.json", &manifest.to_string());
        let row = |row: usize| format!("{row};{};{}\n", 40 - row, ["even", "odd"][row % 2]);
        let rows: String = (0..40).map(row).collect();
        place.write_text("table.csv", &format!("up;down;which\n{rows}"));
        let checkout = Checkout {
            directory: place.directory().to_owned(),
            place,
        };
        checkout.run("sconce run mine.json");
        checkout
    }

    /// Runs a command in a shell; what it printed.
    fn run(&self, command: &str) -> String {
        let library = format!("{DLL_PREFIX}sconce_plugin_stop_after{DLL_SUFFIX}");
        let library = self.place.path("target/release").join(library);
        let command = command.replace("LIBRARY", &library.display().to_string());
        let release = self.place.path("target/release");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::split_paths(&path);
        let path = std::env::join_paths([release].into_iter().chain(path)).expect("a path");
        let output = Command::new("sh")
            .args(["-ec", &command])
            .current_dir(&self.directory)
            .env("PATH", path)
            .env("HOME", self.place.path("home"))
            .env("XDG_DATA_HOME", self.place.path("data-home"))
            .env("NO_COLOR", "1")
            .env_remove("SCONCE_PLUGIN_PATH")
            // What takes its time in the pages' runs are the data.
            .env("SCONCE_SET_DATA", SMALL)
            .env("SCONCE_SET_EPOCHS", "train.epochs=2")
            .output()
            .expect("there is a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let printed = text(&output.stdout);
        assert!(
            output.status.success(),
            "`{command}` ends with {}:\n{printed}{}",
            output.status,
            text(&output.stderr)
        );
        printed + &text(&output.stderr)
    }

    /// Builds the crate that the page has made, with what is built of its dependencies, and puts the library
    /// where a release build has it.
    fn build(&self, command: &str) -> String {
        lock_versions(&self.directory);
        let output = cargo_outside(&self.directory)
            .args(["build", "--quiet"])
            .output()
            .expect("cargo can be run");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let name = format!("{DLL_PREFIX}best_epoch{DLL_SUFFIX}");
        let release = self.directory.join("target/release");
        fs::create_dir_all(&release).expect("made");
        fs::copy(
            outside_target().join("debug").join(&name),
            release.join(&name),
        )
        .expect("copied");
        let rest = command.split_once("&& ").map_or("true", |(_, rest)| rest);
        self.run(rest)
    }
}

/// Data that take no time.
const SMALL: &str = r#"data={"kind":"synthetic-digits","train":64,"val":20,"test":20}"#;

fn follow(page: &str) {
    let text = fs::read_to_string(workspace().join(page)).expect("a page");
    let known = PAGES.iter().find(|(name, _)| *name == page);
    let known = known.map(|(_, commands)| *commands).unwrap_or_default();
    let commands = commands(&text);
    for (command, _) in known {
        let is_there = commands.iter().any(|other| other == command);
        assert!(
            is_there,
            "{page} has no `{command}` any more: take it out of known.rs"
        );
    }
    let mut checkout = Checkout::new();
    for command in commands {
        let does = known.iter().find(|(other, _)| *other == command);
        let Some((_, does)) = does else {
            panic!(
                "{page} has the command `{command}`, which no test runs: say in \
                 tests/people/readme/known.rs what is run for it and what that prints"
            );
        };
        let (instead, words) = match does {
            Does::Runs(instead, words) => (instead, words),
            Does::NotHere(reason) => {
                assert!(!reason.is_empty());
                continue;
            }
        };
        if let Some(directory) = command.strip_prefix("cd ") {
            checkout.directory = checkout.directory.join(directory);
            assert!(checkout.directory.is_dir(), "{page}: `{command}`");
            continue;
        }
        let itself = [command.as_str()];
        let all = if instead.is_empty() {
            &itself[..]
        } else {
            instead
        };
        let mut printed = String::new();
        for one in all {
            printed += &if one.starts_with("cargo build") {
                checkout.build(one)
            } else {
                checkout.run(one)
            };
        }
        for word in *words {
            assert!(
                printed.contains(word),
                "{page}: `{command}`: no {word:?} in:\n{printed}"
            );
        }
    }
}

#[test]
fn the_readme_is_right() {
    follow("README.md");
}

#[test]
fn the_first_run_is_right() {
    follow("docs/first-run.md");
}

#[test]
fn the_first_hook_is_right() {
    follow("docs/first-hook.md");
}

#[test]
fn the_page_of_own_texts_is_right() {
    follow("docs/own-text.md");
}

#[test]
fn the_cookbook_is_right() {
    follow("docs/cookbook.md");
}

#[test]
fn the_installation_is_right() {
    follow("docs/installing.md");
    let version = Workplace::new(&[]).sconce(&["--version"]).stdout;
    let archive = format!("{}-", version.trim().replace(' ', "-"));
    let page = fs::read_to_string(workspace().join("docs/installing.md")).expect("the page");
    assert!(
        page.contains(&archive),
        "the page names another version than {archive}"
    );
}

#[test]
fn commands_are_found_in_a_page() {
    let page = "Say `sconce env`.\n\n```sh\na --b   # why\n\nc\n```\n```json\n{ \"sconce run\": 1 }\n```\n\
                | `sconce x [Y]` | `x` |\n`sconce env`";
    assert_eq!(commands(page), ["sconce env", "a --b", "c", "sconce x [Y]"]);
}
