//! What `sconce new-plugin` and `sconce new-run` write: it builds, passes its own tests, and runs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use sconce_tests::{
    Finished, Workplace, artifacts, cargo_outside, lock_versions, outside_target, skip,
};
use serde_json::Value;

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
    let program = place.path(root).join("bin/sconce");
    fs::create_dir_all(place.path(root).join("bin")).expect("made");
    fs::copy(artifacts().sconce(), &program).expect("copied");
    program
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

fn gzip(path: &std::path::Path, bytes: &[u8]) {
    let file = std::fs::File::create(path).expect("a file");
    let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    packer.write_all(bytes).expect("packed");
    packer.finish().expect("packed");
}

/// Writes a manifest and checks it; gives it back.
fn new_run(place: &Workplace, arguments: &[&str]) -> Value {
    let all = [&["new-run", "--yes", "--plugins", "plugins"], arguments].concat();
    let finished = place.sconce(&all).expect(0, &[]);
    assert!(
        finished.stdout.contains("run.schema.json"),
        "{}",
        finished.stdout
    );
    place.sconce(&["check", "run.json"]).expect(0, &[]);
    let manifest = serde_json::from_str(&place.read("run.json")).expect("JSON");
    for file in ["run.json", "run.schema.json", "run.md"] {
        fs::remove_file(place.path(file)).expect("it was there");
    }
    manifest
}

#[test]
fn new_runs_pass_the_check() {
    let place = Workplace::new(&STANDARD);
    let manifest = new_run(&place, &[]);
    assert_eq!(manifest["data"]["kind"], "synthetic-digits");
    assert_eq!(
        manifest["hooks"],
        serde_json::json!(["console", "csv", "checkpoint"])
    );
    let manifest = new_run(
        &place,
        &["--task", "digits", "--model", "convnet", "--epochs", "2"],
    );
    assert_eq!(
        (&manifest["model"]["kind"], &manifest["train"]["epochs"]),
        (&"convnet".into(), &2.into())
    );
    new_run(&place, &["--model", "resnet"]);

    let rows: Vec<String> = (0..40)
        .map(|row| {
            format!(
                "{};{};{}\n",
                row,
                40 - row,
                if row % 2 == 0 { "even" } else { "odd" }
            )
        })
        .collect();
    place.write_text(
        "table.csv",
        &format!("up;down;\"which\"\n{}", rows.concat()),
    );
    let manifest = new_run(&place, &["--data", "table.csv"]);
    assert_eq!(manifest["data"]["target"], "which");
    assert_eq!(manifest["data"]["delimiter"], ";");
    // What is packed is looked into.
    let table = place.read("table.csv");
    gzip(&place.path("table.csv.gz"), table.as_bytes());
    let manifest = new_run(&place, &["--data", "table.csv.gz"]);
    assert_eq!(manifest["data"]["kind"], "csv");
    assert_eq!(manifest["data"]["target"], "which");
    let manifest = new_run(
        &place,
        &["--task", "table", "--data", "table.csv", "--target", "up"],
    );
    assert_eq!(manifest["data"]["target"], "up");

    place.write_text("words.txt", &"the quick brown fox\n".repeat(200));
    let manifest = new_run(&place, &["--data", "words.txt"]);
    assert_eq!(manifest["model"]["kind"], "gpt");
}

#[test]
fn a_new_run_trains_and_is_explained() {
    let place = Workplace::new(&STANDARD);
    let arguments = [
        "new-run",
        "deep/first.json",
        "--yes",
        "--epochs",
        "1",
        "--plugins",
        "plugins",
    ];
    place.sconce(&arguments).expect(0, &[]);
    let notes = place.read("deep/first.md");
    for words in [
        "- `epochs`: ",
        "## `optimizer`",
        "Adam with decoupled weight decay",
        "- `threads`: ",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    let schema: Value = serde_json::from_str(&place.read("deep/first.schema.json")).expect("JSON");
    let checkpoint = &schema["$defs"]["config of checkpoint"]["properties"];
    assert!(checkpoint["keep_last"].is_object());
    let small = "data={\"kind\":\"synthetic-digits\",\"train\":200,\"val\":50,\"test\":10}";
    let run = ["run", "deep/first.json", "--set", small];
    place.sconce(&run).expect(0, &[]);
    refused(&place, &arguments, &["`deep/first.json` is there already"]);
}

#[test]
fn a_new_run_says_what_it_lacks() {
    let place = Workplace::new(&[]);
    let cases: [(&[&str], &str); 5] = [
        (&["--task", "image"], "say `--data PATH`"),
        (
            &["--task", "table", "--data", "none.csv"],
            "there is no `none.csv`",
        ),
        (
            &["--task", "image", "--data", "plugins"],
            "neither IDX files nor a directory",
        ),
        (
            &["--task", "digits", "--model", "gpt"],
            "choose `mlp` or `convnet` or `resnet`",
        ),
        (&["--epochs", "0"], "0 is not in 1.."),
    ];
    for (arguments, words) in cases {
        refused(&place, &[&["new-run"], arguments].concat(), &[words]);
        assert!(!place.path("run.json").exists());
    }
    gzip(&place.path("idx.gz"), &[0, 0, 8, 1, 0, 0, 0, 2, 1, 2]);
    gzip(
        &place.path("tar.csv.gz"),
        &[&[1; 257][..], b"ustar"].concat(),
    );
    for (name, bytes, words) in [
        ("t.csv.xz", &b"\xfd7zXZ\0"[..], "compressed by xz"),
        ("t.csv.zip", b"PK\x03\x04", "unzip t.csv.zip"),
        ("t.zst", b"\x28\xb5\x2f\xfd", "zstd -d t.zst"),
        ("t.bz2", b"BZh9", "bzip2 -dk t.bz2"),
        ("t.parquet", b"PAR1", "to_csv("),
        ("t.bin", b"some\0bytes", "binary (it has NUL bytes)"),
    ] {
        std::fs::write(place.path(name), bytes).expect("written");
        refused(&place, &["new-run", "--yes", "--data", name], &[words]);
    }
    refused(
        &place,
        &["new-run", "--yes", "--data", "idx.gz"],
        &["gzipped, and in that an IDX file"],
    );
    refused(
        &place,
        &["new-run", "--yes", "--data", "tar.csv.gz"],
        &["a tar archive"],
    );
    assert!(!place.path("run.json").exists());
    place.write_text("t.csv", "a,b\n1,2\n");
    let arguments = ["new-run", "--data", "t.csv", "--target", "c"];
    refused(
        &place,
        &arguments,
        &["the table has no column `c`; it has: a, b"],
    );
    // Beside this program lie the plugins that it was built with.
    assert!(artifacts().directory().is_dir());
}
