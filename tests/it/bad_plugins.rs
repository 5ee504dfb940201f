//! Every wrong plugin is told before anything is trained.

use std::path::{Path, PathBuf};
use std::process::Command;

use sconce_tests::{Finished, Workplace, artifacts, edit, patched, tiny};
use serde_json::{Value, json};

const RECORDER: &str = "sconce-fixture-recorder";

fn run(place: &Workplace, hook: Value) -> Finished {
    let finished = place.run(&edit(tiny(), "/hooks", json!([hook])));
    if finished.code != 0 {
        assert!(
            !place.path("out").exists(),
            "nothing is made before the plugins are right"
        );
    }
    finished
}

/// A run whose hook comes from the file `library` with these bytes.
fn from_bytes(bytes: &[u8]) -> Finished {
    let place = Workplace::new(&[]);
    std::fs::write(place.path("library.so"), bytes).expect("written");
    run(&place, json!({"hook": "recorder", "library": "library.so"}))
}

fn recorder() -> Vec<u8> {
    std::fs::read(artifacts().plugin(RECORDER)).expect("it is built")
}

/// Replaces bytes wherever they are: a plugin has its metadata in the section and for `describe`.
/// A library that `cc` makes of a C text.
fn compiled(place: &Workplace, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let file = place.write_text(&format!("{name}.c"), source);
    let target = place.path(name);
    let status = Command::new("cc")
        .args(flags)
        .arg("-o")
        .arg(&target)
        .arg(&file)
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "cc compiles {name}"
    );
    target
}

#[test]
fn a_hook_that_nobody_has_is_reported_with_the_nearest_and_where_it_was_looked_for() {
    let place = Workplace::new(&[RECORDER, "sconce-plugin-stop-after"]);
    run(&place, json!("recoder")).expect(
        3,
        &[
            "no plugin has a hook `recoder`",
            "did you mean `recorder`?",
            "searched: plugins",
            "hooks found: `recorder`, `stop-after`",
            "at hooks[0]",
        ],
    );
    let nowhere = edit(tiny(), "/plugins", json!([]));
    let nowhere = edit(nowhere, "/hooks", json!(["recorder"]));
    place
        .run(&nowhere)
        .expect(3, &["no directory was searched", "SCONCE_PLUGIN_PATH"]);
    let missing = edit(tiny(), "/plugins", json!(["plugns"]));
    let missing = edit(missing, "/hooks", json!(["recorder"]));
    place.run(&missing).expect(
        3,
        &[
            "see which directories can't be searched, below",
            "the plugin directory `plugns` can't be searched",
        ],
    );
}

#[test]
fn every_problem_of_every_entry_is_reported() {
    let place = Workplace::new(&[RECORDER]);
    std::fs::write(place.path("broken.so"), b"no library").expect("written");
    let hooks = json!(["nobody", {"hook": "x", "library": "broken.so"}, "recorder", {"hook": "y", "library": "gone.so"}]);
    let finished = place.run(&edit(tiny(), "/hooks", hooks)).expect(
        3,
        &[
            "no plugin has a hook `nobody`",
            "at hooks[0]",
            "starts with `no library`",
            "at hooks[1]",
            "`gone.so` is refused: it can't be read",
            "at hooks[3]",
        ],
    );
    assert_eq!(
        finished.stderr.matches("error:").count(),
        3,
        "{}",
        finished.stderr
    );
}

#[test]
fn an_ambiguous_name_is_reported_with_both_files_and_can_be_made_plain() {
    let place = Workplace::new(&[RECORDER, "sconce-fixture-rival"]);
    run(&place, json!("recorder")).expect(
        3,
        &[
            "the hook `recorder` is ambiguous: 2 plugins have it",
            "`sconce-fixture-recorder/recorder` in plugins",
            "`sconce-fixture-rival/recorder` in plugins",
            "as `plugin/hook`",
        ],
    );
    run(&place, json!("sconce-fixture-rival/recorder")).expect(0, &["the rival is here"]);
    let library = format!(
        "plugins/{}",
        artifacts()
            .plugin(RECORDER)
            .file_name()
            .expect("a name")
            .to_string_lossy()
    );
    run(&place, json!({"hook": "recorder", "library": library})).expect(0, &[]);
}

#[test]
fn of_two_builds_of_a_plugin_the_first_directory_wins_and_one_directory_is_ambiguous() {
    let place = Workplace::new(&[]);
    let older = patched(
        recorder(),
        b"\"version\":\"0.1.0\"",
        b"\"version\":\"0.1.1\"",
    );
    for directory in ["first", "second", "both"] {
        std::fs::create_dir(place.path(directory)).expect("made");
    }
    for file in ["first/recorder.so", "both/new.so"] {
        std::fs::write(place.path(file), recorder()).expect("written");
    }
    for file in ["second/recorder.so", "both/old.so"] {
        std::fs::write(place.path(file), &older).expect("written");
    }
    let hooks = edit(tiny(), "/hooks", json!(["recorder"]));
    place
        .run(&edit(hooks.clone(), "/plugins", json!(["first", "second"])))
        .expect(
            0,
            &[
                "warning: the hook `recorder` comes from `first/recorder.so`",
                "`second/recorder.so`, is passed over",
            ],
        );
    std::fs::remove_dir_all(place.path("out")).expect("the run's directory");
    place.run(&edit(hooks, "/plugins", json!(["both"]))).expect(
        3,
        &[
            "the hook `recorder` is ambiguous",
            "both/new.so",
            "both/old.so",
            "pin it with `\"sha256\"`",
        ],
    );
}

#[test]
fn files_that_are_no_plugin_libraries_are_reported() {
    let place = Workplace::new(&[]);
    let other = compiled(
        &place,
        "other.so",
        "int answer(void) { return 42; }",
        &["-shared", "-fPIC"],
    );
    let object = compiled(
        &place,
        "object.o",
        "int answer(void) { return 42; }",
        &["-c"],
    );
    let program = compiled(
        &place,
        "program",
        "int main(void) { return 0; }",
        &["-pie", "-fPIE"],
    );
    let fixed = compiled(
        &place,
        "fixed",
        "int main(void) { return 0; }",
        &["-no-pie"],
    );
    let archive = place.path("archive.a");
    assert!(
        Command::new("ar")
            .arg("rc")
            .arg(&archive)
            .arg(&object)
            .status()
            .is_ok_and(|s| s.success())
    );
    std::fs::create_dir(place.path("directory.so")).expect("made");
    std::fs::write(place.path("empty.so"), b"").expect("written");
    std::fs::write(place.path("script.so"), b"#!/bin/sh\necho\n").expect("written");
    let name = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    for (library, words) in [
        (name(&other), "a shared library, but no Sconce plugin"),
        (name(&object), "is an object file, not linked yet"),
        (name(&program), "is an executable"),
        (name(&fixed), "is an executable"),
        (name(&archive), "is a static library"),
        (Some("directory.so".to_owned()), "a directory, not a file"),
        (Some("empty.so".to_owned()), "is empty"),
        (Some("script.so".to_owned()), "starts with `#!/bin/sh`"),
        (Some("nowhere.so".to_owned()), "it can't be read"),
    ] {
        run(&place, json!({"hook": "x", "library": library})).expect(3, &[words, "at hooks[0]"]);
    }
}

#[test]
fn a_library_for_another_machine_is_reported() {
    let mut bytes = recorder();
    bytes[18..20].copy_from_slice(&243_u16.to_le_bytes());
    from_bytes(&bytes).expect(3, &["built for", "this host runs"]);
    let mut bytes = recorder();
    bytes[4] = 1;
    from_bytes(&bytes).expect(3, &["is refused"]);
    let mut bytes = recorder();
    bytes[5] = 2;
    from_bytes(&bytes).expect(3, &["is refused"]);
}

#[test]
fn a_library_cut_off_anywhere_is_reported() {
    let bytes = recorder();
    for tenth in 0..10 {
        let part = &bytes[..bytes.len() * tenth / 10];
        from_bytes(part).expect(
            3,
            &[
                if tenth == 0 { "is empty" } else { "truncated" },
                "build or copy the file again",
            ][..if tenth == 0 { 1 } else { 2 }],
        );
    }
    // What is missing at the very end are the section headers.
    from_bytes(&bytes[..bytes.len() - 1]).expect(3, &["truncated"]);
}

#[test]
fn a_file_larger_than_any_library_is_reported_unread() {
    let place = Workplace::new(&[RECORDER]);
    let huge = std::fs::File::create(place.path("plugins/huge.so")).expect("made");
    if huge.set_len(5 << 30).is_err() {
        sconce_tests::say("not tried: this file system has no files with holes");
        return;
    }
    let hook = json!({"hook": "recorder", "library": "plugins/huge.so"});
    run(&place, hook).expect(
        3,
        &["is refused: it has 5368709120 bytes, and a plugin's library at most 1073741824"],
    );
    // One that is looked at only because it lies there troubles nobody.
    run(&place, json!("recorder")).expect(0, &[]);
}

#[test]
fn a_plugin_of_another_abi_epoch_or_major_version_is_reported() {
    let epoch = patched(recorder(), b"\"abi_epoch\":1,", b"\"abi_epoch\":2,");
    from_bytes(&epoch).expect(
        3,
        &["epoch 2, this host speaks epoch 1", "update this host"],
    );
    let major = patched(
        recorder(),
        b"\"api_version\":\"1.0",
        b"\"api_version\":\"2.1",
    );
    from_bytes(&major).expect(3, &["sconce-plugin-api 2.1.0", "rebuild the plugin"]);
    let newer = patched(
        recorder(),
        b"\"api_version\":\"1.0",
        b"\"api_version\":\"1.9",
    );
    from_bytes(&newer).expect(0, &[]);
    let damaged = patched(recorder(), b"\"abi_epoch\":1,", b"\"abi_epoch\":1;");
    from_bytes(&damaged).expect(3, &["its metadata is damaged"]);
}

#[test]
fn metadata_without_a_plugin_behind_it_is_reported() {
    let place = Workplace::new(&[]);
    let json = r#"{\"name\":\"fake\",\"version\":\"1\",\"abi_epoch\":1,\"api_version\":\"1.0.0\",\"rustc\":\"\",\"target\":\"\",\"panic\":\"unwind\",\"hooks\":[{\"name\":\"fake\",\"priority\":30,\"points\":[]}]}"#;
    let length = json.replace('\\', "").len();
    let source = format!(
        "__attribute__((section(\".sconce.plugin\"), used)) const struct {{ char magic[8]; unsigned length; char text[{length}]; }} m = {{ {{'S','C','O','N','C','E',0,1}}, {length}, \"{json}\" }};"
    );
    compiled(&place, "fake.so", &source, &["-shared", "-fPIC"]);
    run(&place, json!({"hook": "fake", "library": "fake.so"}))
        .expect(3, &["it has no root module"]);
    let undefined =
        format!("{source}\nextern int nowhere(void); int call(void) {{ return nowhere(); }}");
    compiled(&place, "undefined.so", &undefined, &["-shared", "-fPIC"]);
    run(&place, json!({"hook": "fake", "library": "undefined.so"}))
        .expect(3, &["the system can't open it", "nowhere"]);
}

#[test]
fn pinned_bytes_are_the_only_ones() {
    let place = Workplace::new(&[RECORDER]);
    let zeros = "0".repeat(64);
    let finished = run(&place, json!({"hook": "recorder", "sha256": zeros})).expect(
        3,
        &[
            "its bytes are not those that the manifest pins",
            &zeros,
            "if you trust the new file",
        ],
    );
    let found = finished
        .stderr
        .split("\"sha256\": \"")
        .last()
        .and_then(|rest| rest.get(..64))
        .expect("a hash");
    run(&place, json!({"hook": "recorder", "sha256": found})).expect(0, &[]);
    run(
        &place,
        json!({"hook": "recorder", "sha256": found.to_uppercase()}),
    )
    .expect(0, &[]);
}

#[test]
fn a_bad_hook_configuration_is_reported_with_its_path() {
    let place = Workplace::new(&[
        RECORDER,
        "sconce-fixture-faults",
        "sconce-plugin-stop-after",
    ]);
    for (hook, words) in [
        (
            json!({"hook": "recorder", "config": {"fille": "x"}}),
            &[
                "the configuration of `recorder`: unknown key `fille`",
                "did you mean `file`?",
                "at hooks[0].config.fille",
            ][..],
        ),
        (
            json!({"hook": "recorder", "config": {"file": 5}}),
            &["expected a text, found 5", "at hooks[0].config.file"],
        ),
        (
            json!({"hook": "fault"}),
            &["the key `at` is missing", "at hooks[0]"],
        ),
        (
            json!({"hook": "fault", "config": {"at": "x", "how": "panik"}}),
            &["expected one of `panic`", "did you mean `panic`?"],
        ),
        (
            json!({"hook": "stop-after", "config": {"epochs": -1}}),
            &["at hooks[0].config.epochs"],
        ),
    ] {
        run(&place, hook).expect(2, words);
    }
    // What the schema can't say, the hook itself does.
    let place = Workplace::new(&["sconce-plugin-stop-after"]);
    let finished = place.run(&edit(tiny(), "/hooks", json!(["stop-after"])));
    finished.expect(3, &["stop-after", "at hooks[0]"]);
}

#[test]
fn damaged_plugins_in_a_directory_trouble_only_those_who_need_them() {
    let place = Workplace::new(&[RECORDER]);
    let bytes = recorder();
    std::fs::write(place.path("plugins/half.so"), &bytes[..bytes.len() / 2]).expect("written");
    compiled(
        &place,
        "plugins/other.so",
        "int answer(void) { return 42; }",
        &["-shared", "-fPIC"],
    );
    run(&place, json!("recorder")).expect(0, &[]);
    std::fs::remove_dir_all(place.path("out")).expect("the run's directory");
    let finished = run(&place, json!("nobody"));
    let finished = finished.expect(3, &["refused: `plugins/half.so`: truncated"]);
    assert!(
        !finished.stderr.contains("other.so"),
        "no plugin, no word of it:\n{}",
        finished.stderr
    );
}
