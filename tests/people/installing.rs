//! Plugins that are installed are found without being named, and everything that is named comes first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const CSV: &str = "sconce-plugin-csv";

/// The user's directory of plugins in a workplace.
const USERS: &str = "data-home/sconce/plugins";

/// A manifest without the key `plugins`.
fn bare(hooks: Value) -> Value {
    let mut manifest = edit(tiny(), "/hooks", hooks);
    if let Some(keys) = manifest.as_object_mut() {
        keys.remove("plugins");
    }
    manifest
}

fn installed_as_json(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).expect("JSON")
}

/// What was done with each plugin.
fn outcomes(finished: &Finished) -> Vec<(String, String)> {
    let object = installed_as_json(finished);
    let plugins = object["plugins"].as_array().expect("a list");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    plugins
        .iter()
        .map(|plugin| (text(&plugin["name"]), text(&plugin["outcome"])))
        .collect()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("it is there");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn installed_plugins_are_found_from_any_directory() {
    let place = Workplace::new(&[]);
    place.write(&bare(json!(["csv"])));
    let finished = place.sconce(&["run", "manifest.json"]);
    finished.expect(
        3,
        &[
            "no plugin has a hook `csv`",
            "not there: ",
            USERS,
            "lib/sconce/plugins",
            "sconce install-plugins",
        ],
    );
    let finished = place.sconce(&["install-plugins"]).expect(0, &[]);
    for words in [
        CSV,
        "sconce-plugin-metrics",
        "new",
        "16 plugins installed in",
    ] {
        assert!(finished.stdout.contains(words), "{}", finished.stdout);
    }
    assert!(!finished.stdout.contains("fixture"), "{}", finished.stdout);
    fs::create_dir_all(place.path("far/away")).expect("made");
    let finished = place
        .command(&["run", "../../manifest.json"])
        .current_dir(place.path("far/away"))
        .output()
        .expect("it runs");
    Finished::from(finished).expect(0, &[]);
    assert!(place.read("out/val.csv").lines().count() > 1);

    let finished = place.sconce(&["plugins"]).expect(0, &[]);
    for words in ["early-stopping", USERS] {
        assert!(finished.stdout.contains(words), "{}", finished.stdout);
    }
    let finished = place.sconce(&["env"]).expect(0, &[]);
    for words in [USERS, "lib/sconce/plugins, which is not there", CSV] {
        assert!(finished.stdout.contains(words), "{}", finished.stdout);
    }
    let finished = place.sconce(&["schema", "--hook", "csv"]).expect(0, &[]);
    assert!(
        finished.stdout.contains("properties"),
        "{}",
        finished.stdout
    );
}

#[test]
fn a_named_directory_comes_before_installed_plugins() {
    let place = Workplace::new(&[CSV]);
    // Another build of the plugin: the same bytes and something behind them.
    let installed = place.add_plugin(CSV, USERS);
    let mut bytes = fs::read(&installed).expect("read");
    bytes.push(0);
    fs::remove_file(&installed).expect("removed");
    fs::write(&installed, bytes).expect("written");
    place.write(&edit(tiny(), "/hooks", json!(["csv"])));
    let checked = place.sconce(&["check", "manifest.json"]).expect(0, &[]);
    assert!(checked.stdout.contains("plugins/lib"), "{}", checked.stdout);
    assert!(!checked.stdout.contains(USERS), "{}", checked.stdout);
    assert_eq!(checked.stderr, "", "no warning of the installed build");

    place.write(&bare(json!(["csv"])));
    let checked = place.sconce(&["check", "manifest.json"]).expect(0, &[]);
    assert!(checked.stdout.contains(USERS), "{}", checked.stdout);

    // A hook of a named plugin is not ambiguous because an installed plugin has one of that name.
    let environment = [("SCONCE_PLUGIN_PATH", "plugins")];
    let checked = place.sconce_in(&["check", "manifest.json"], &environment);
    let checked = checked.expect(0, &[]);
    assert!(!checked.stdout.contains(USERS), "{}", checked.stdout);
    let schema = place.sconce(&["schema", "--plugins", "plugins"]);
    let schema: Value = serde_json::from_str(&schema.expect(0, &[]).stdout).expect("JSON");
    assert!(schema["$defs"]["config of csv"].is_object());

    // A pinned build is found where it is.
    let pin = place.sconce(&["inspect", &installed.display().to_string(), "--json"]);
    let pin = installed_as_json(&pin)["sha256"].clone();
    let hooks = json!([{"hook": "csv", "sha256": pin}]);
    place.write(&edit(tiny(), "/hooks", hooks));
    let checked = place.sconce(&["check", "manifest.json"]).expect(0, &[]);
    assert!(checked.stdout.contains(USERS), "{}", checked.stdout);
}

#[test]
fn an_installation_replaces_older_builds_and_says_so() {
    let place = Workplace::new(&[CSV, "sconce-plugin-stop-after"]);
    let install = |more: &[&str]| {
        let arguments = [&["install-plugins", "--from", "plugins", "--json"], more].concat();
        place.sconce(&arguments).expect(0, &[])
    };
    let expected = |csv: &str, stop_after: &str| {
        [(CSV, csv), ("sconce-plugin-stop-after", stop_after)]
            .map(|(name, outcome)| (name.to_owned(), outcome.to_owned()))
    };
    assert_eq!(outcomes(&install(&["--dry-run"])), expected("new", "new"));
    assert!(!place.path("data-home").exists(), "a dry run does nothing");
    let finished = install(&[]);
    assert_eq!(outcomes(&finished), expected("new", "new"));
    assert_eq!(finished.stderr, "");

    // An older build under another name, and a newer one of the source's.
    let users = place.path(USERS);
    let both = names(&users);
    assert_eq!(both, names(&place.path("plugins")), "nothing else is left");
    let file = both.first().expect("two files");
    fs::rename(users.join(file), users.join("older.so")).expect("renamed");
    let finished = install(&[]);
    assert_eq!(outcomes(&finished), expected("replaced", "unchanged"));
    let previous = &installed_as_json(&finished)["plugins"][0]["previous"];
    assert_eq!(previous.as_array().map(Vec::len), Some(1));
    assert_eq!(names(&users), both, "one build of each");

    // One library, to a place of one's own.
    let library = place.path("plugins").join(file);
    let library = library.to_str().expect("plain");
    let arguments = ["install-plugins", "--from", library, "--to", "my/own"];
    let warned = [
        "runs don't look for plugins in `my/own`",
        "SCONCE_PLUGIN_PATH",
    ];
    place.sconce(&arguments).expect(0, &warned);
    assert_eq!(names(&place.path("my/own")), [file.as_str()]);

    let remove = ["install-plugins", "--remove", CSV];
    let finished = place.sconce(&[&remove[..], &["--dry-run"]].concat());
    assert!(finished.expect(0, &[]).stdout.contains("would be removed"));
    assert_eq!(names(&users), both);
    place.sconce(&remove).expect(0, &[]);
    assert_eq!(names(&users).len(), 1);
    let hint = ["there is no plugin `sconce-plugin-csv`"];
    place.sconce(&remove).expect(2, &hint);
}

#[test]
fn what_is_no_plugin_stays_out() {
    let place = Workplace::new(&[CSV]);
    let file = names(&place.path("plugins")).remove(0);
    fs::write(place.path("plugins/cut.so"), b"\x7fELF\x02\x01\x01").expect("written");
    fs::copy(
        place.path("plugins").join(&file),
        place.path("plugins/twice.so"),
    )
    .expect("copied");
    let finished = place.sconce(&["install-plugins", "--from", "plugins"]);
    let finished = finished.expect(
        3,
        &[
            "cut.so",
            "is refused",
            "twice.so",
            "is the plugin `sconce-plugin-csv` as",
        ],
    );
    assert!(
        finished.stdout.contains("1 plugin installed"),
        "{}",
        finished.stdout
    );
    assert_eq!(names(&place.path(USERS)), [file]);
    fs::create_dir(place.path("empty")).expect("made");
    let finished = place.sconce(&["install-plugins", "--from", "empty"]);
    finished.expect(3, &["there is no plugin in `empty`"]);
    let finished = place.sconce(&["install-plugins", "--from", "nowhere.so"]);
    finished.expect(3, &["`nowhere.so` is refused", "can't be read"]);
}

/// The binary at another place, and a way to run it there as [`Workplace::command`] does.
fn elsewhere(place: &Workplace, directory: &str) -> impl Fn(&[&str]) -> Finished + use<> {
    run_by(place, place.add_sconce(directory))
}

/// A way to run a copy of the binary.
pub(super) fn run_by(place: &Workplace, program: PathBuf) -> impl Fn(&[&str]) -> Finished + use<> {
    let home = place.path("data-home");
    let place = place.directory().to_owned();
    move |arguments| {
        let mut command = Command::new(&program);
        command
            .args(arguments)
            .current_dir(&place)
            .env("XDG_DATA_HOME", &home)
            .env("NO_COLOR", "1")
            .env_remove("SCONCE_PLUGIN_PATH");
        Finished::from(command.output().expect("it runs"))
    }
}

#[test]
fn plugins_that_came_with_the_program_come_before_the_users() {
    let place = Workplace::new(&[]);
    let library = place.add_plugin(CSV, "prefix/lib/sconce/plugins");
    place.write(&bare(json!(["csv"])));
    let run = elsewhere(&place, "prefix/bin");
    run(&["run", "manifest.json"]).expect(0, &[]);
    assert!(place.path("out/val.csv").exists());
    let finished = run(&["install-plugins"]).expect(0, &[]);
    assert!(
        finished.stdout.contains("came with this program, in"),
        "{}",
        finished.stdout
    );
    let from = library.to_str().expect("plain");
    let warned = ["1 of these lie in", "where this program looks first"];
    run(&["install-plugins", "--from", from]).expect(0, &warned);
    let checked = run(&["check", "manifest.json"]).expect(0, &[]);
    assert!(
        checked.stdout.contains("prefix/lib/sconce/plugins"),
        "{}",
        checked.stdout
    );
}

#[test]
fn a_program_on_its_own_says_where_plugins_come_from() {
    let place = Workplace::new(&[]);
    let run = elsewhere(&place, "alone/bin");
    let problem = [
        "there are no standard plugins beside this program",
        "--from target/release",
    ];
    run(&["install-plugins"]).expect(3, &problem);
    let finished = run(&["plugins"]).expect(0, &[]);
    for words in ["no plugins found", "not there: ", USERS] {
        assert!(finished.stdout.contains(words), "{}", finished.stdout);
    }
}
