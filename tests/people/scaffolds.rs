//! What `sconce new-plugin` writes: it builds, passes its own tests, and runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sconce_tests::{Finished, Workplace, cargo_outside, lock_versions, outside_target, skip};

use super::installing::run_by;

const STANDARD: [&str; 3] = [
    "sconce-plugin-checkpoints",
    "sconce-plugin-console",
    "sconce-plugin-csv",
];

/// Runs cargo in the new crate, without a network; what it printed.
fn cargo(place: &Path, arguments: &[&str]) -> String {
    let output = cargo_outside(place)
        .args(arguments)
        .output()
        .expect("cargo can be run");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "cargo {arguments:?}: {text}");
    text
}

fn refused(place: &Workplace, arguments: &[&str], words: &[&str]) {
    let finished: Finished = place.sconce(arguments);
    finished.expect(2, words);
}

/// A directory as an archive's, with the standard plugins; the program in it.
fn unpacked(place: &Workplace, root: &str) -> PathBuf {
    for plugin in STANDARD {
        place.add_plugin(plugin, &format!("{root}/lib/sconce/plugins"));
    }
    place.add_sconce(&format!("{root}/bin"))
}

#[test]
fn a_new_plugin_needs_no_checkout_builds_passes_its_tests_and_runs() {
    let place = Workplace::new(&[]);
    let sconce = run_by(&place, unpacked(&place, "opt/sconce"));
    // At the same place each time, beside what others have built: neither grows with every test.
    let made = outside_target().join("made/best-of-run");
    if made.exists() {
        fs::remove_dir_all(&made).expect("an earlier one can be removed");
    }
    let path = made.to_str().expect("plain");
    let finished = sconce(&["new-plugin", "best-of-run", "--path", path]).expect(0, &[]);
    for line in [
        "src/lib.rs",
        "in sconce-plugin-api, which came with sconce",
        "cargo test",
        "run run.json",
    ] {
        assert!(finished.stdout.contains(line), "{}", finished.stdout);
    }
    // What the program came with may be moved later.
    fs::rename(place.path("opt"), place.path("moved")).expect("moved");
    let sconce = run_by(&place, place.path("moved/sconce/bin/sconce"));

    lock_versions(&made);
    cargo(&made, &["fmt", "--check"]);
    let tested = cargo(&made, &["test"]);
    assert!(tested.contains("test result: ok. 4 passed"), "{tested}");
    cargo(
        &made,
        &[
            "clippy",
            "--all-targets",
            "--",
            "-D",
            "warnings",
            "-W",
            "clippy::pedantic",
            "-A",
            "clippy::cast_possible_truncation",
        ],
    );
    // The profile that `cargo test` has built most of already.
    cargo(&made, &["build"]);
    let library = format!("--plugins={}", outside_target().join("debug").display());
    let manifest = made.join("run.json");
    let manifest = manifest.to_str().expect("plain");
    let arguments = [manifest, "--set", "plugins=[]", &library];
    sconce(&[&["check"], &arguments[..]].concat()).expect(0, &[]);
    let finished = sconce(&[&["run"], &arguments[..]].concat()).expect(0, &[]);
    assert!(
        finished
            .stdout
            .contains("`accuracy` got no better for 2 epochs")
            || finished.stdout.contains("10 epochs"),
        "{}",
        finished.stdout
    );
    assert!(made.join("runs/best-of-run/checkpoints/best").is_dir());
}

#[test]
fn a_new_plugin_can_carry_all_sources_that_it_needs() {
    let place = Workplace::new(&[]);
    // In a checkout's directory a path to its sources would do.
    place
        .sconce(&["new-plugin", "a", "--vendor"])
        .expect(0, &[]);
    let manifest = place.read("a/Cargo.toml");
    for line in [
        "sconce-plugin-api = { path = \"sconce-plugin-api\" }",
        "exclude = [\"sconce-plugin-api\"]",
    ] {
        assert!(manifest.contains(line), "{manifest}");
    }
    assert!(
        place
            .path("a/sconce-plugin-api/macros/src/lib.rs")
            .is_file()
    );

    // An archive that nobody may write to.
    let sconce = run_by(&place, unpacked(&place, "opt"));
    let crates = place.path("opt/share/sconce/vendor");
    let words = ["did not come with this program", "only archives have them"];
    sconce(&["new-plugin", "b", "--offline"]).expect(2, &words);
    assert!(!place.path("b").exists(), "nothing is written");
    fs::create_dir_all(crates.join("one-1.0.0/src")).expect("made");
    let source = crates.join("one-1.0.0/src/lib.rs");
    fs::write(&source, "// one").expect("written");
    let mut permissions = fs::metadata(&source).expect("it is there").permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&source, permissions).expect("set");
    let finished = sconce(&["new-plugin", "b", "--offline"]).expect(0, &[]);
    assert!(
        finished.stdout.contains("builds it without a network"),
        "{}",
        finished.stdout
    );
    assert!(
        place
            .read("b/.cargo/config.toml")
            .contains("directory = \"vendor\"")
    );
    let copy = fs::metadata(place.path("b/vendor/one-1.0.0/src/lib.rs")).expect("copied");
    assert!(!copy.permissions().readonly(), "it is the author's");
    sconce(&["new-plugin", "c", "--vendor", "--api", "1.2"]).expect(2, &["cannot be used with"]);
}

#[test]
fn new_plugins_in_c_and_cpp_need_a_compiler_and_the_program() {
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    if let Some(missing) = ["make", "cc", "c++"].into_iter().find(|tool| !has(tool)) {
        return skip(&format!("there is no `{missing}`"));
    }
    let place = Workplace::new(&[]);
    let sconce = run_by(&place, unpacked(&place, "opt/a place"));
    for (language, files) in [
        ("c", &["best-of.c", "sconce.h"][..]),
        ("c++", &["best-of.cpp", "sconce.h", "sconce.hpp"]),
    ] {
        let arguments = [
            "new-plugin",
            "best-of",
            "--language",
            language,
            "--path",
            language,
        ];
        let printed = sconce(&arguments).expect(0, &[]).stdout;
        for words in files
            .iter()
            .chain(&["Makefile", "make test", "run run.json"])
        {
            assert!(printed.contains(words), "{printed}");
        }
        let make = |arguments: &[&str]| {
            let output = Command::new("make")
                .current_dir(place.path(language))
                .args(arguments)
                .output()
                .expect("make can be run");
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            assert!(output.status.success(), "{language}: {text}");
            text
        };
        make(&["CFLAGS=-O1 -Werror", "CXXFLAGS=-O1 -Werror"]);
        let tested = make(&["test"]);
        assert!(tested.contains(" 0 warning, 0 failed"), "{tested}");
        assert!(tested.contains("completed: 2 epochs"), "{tested}");
        assert!(tested.contains("epochs_without_gain"), "{tested}");
    }
}

#[test]
fn a_new_plugin_is_refused_where_it_can_not_be() {
    let place = Workplace::new(&[]);
    refused(
        &place,
        &["new-plugin", "2nd best"],
        &["is not a name for a crate", "try `nd-best`"],
    );
    refused(
        &place,
        &["new-plugin", "match"],
        &["one of Rust's own words", "try `match-hook`"],
    );
    refused(
        &place,
        &["new-plugin", "a", "--hook", "A b"],
        &["not a name for a hook", "try `a-b`"],
    );
    refused(
        &place,
        &["new-plugin", "a", "--path", "plugins/.."],
        &["not empty", "--path DIR"],
    );
    refused(
        &place,
        &["new-plugin", "a", "--api", "nowhere"],
        &["neither a version nor", "--api"],
    );
    refused(
        &place,
        &["new-plugin", "a", "--language", "c", "--vendor"],
        &["`--vendor` is for plugins in Rust"],
    );
    refused(
        &place,
        &["new-plugin", "a b", "--language", "c++"],
        &["is not a name for a plugin", "try `a-b`"],
    );
    assert!(!place.path("a").exists());
    let arguments = [
        "new-plugin",
        "phase",
        "--path",
        "made/here",
        "--hook",
        "phase",
        "--api",
        "1.2",
    ];
    place.sconce(&arguments).expect(0, &[]);
    assert!(
        place
            .read("made/here/src/lib.rs")
            .contains("struct PhaseHook {")
    );
    let cargo = place.read("made/here/Cargo.toml");
    assert!(
        cargo.contains("sconce-plugin-api = { version = \"1.2\" }"),
        "{cargo}"
    );
}
