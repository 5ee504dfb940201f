//! The museum (`tests/museum`): plugins as they were built when a version of the interface was released load, and do what they did.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use sconce_tests::{Workplace, edit, tiny, workspace};

/// A library, as `exhibits.json` lists it.
#[derive(Deserialize)]
struct Exhibit {
    library: String,
    sha256: String,
}

fn exhibits() -> Vec<Exhibit> {
    let text = fs::read_to_string(workspace().join("tests/museum/exhibits.json"));
    serde_json::from_str(&text.expect("the list is there")).expect("it is JSON")
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
fn plugins_of_every_released_interface_load_and_do_what_they_did() {
    let museum = workspace().join("tests/museum");
    let expected = fs::read_to_string(museum.join("expected.txt")).expect("a text");
    let all = exhibits();
    let are_all = ["c-", "cpp-", "rust-"].map(|language| {
        let of_it = all.iter().filter(|one| one.library.starts_with(language));
        of_it.count()
    });
    assert!(
        are_all[0] > 0 && are_all[1] > 0 && are_all[2] > 1,
        "{are_all:?}"
    );
    for exhibit in all {
        let bytes = fs::read(museum.join(&exhibit.library)).expect("a library");
        let digest = Sha256::digest(&bytes)
            .iter()
            .fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
        assert_eq!(digest, exhibit.sha256, "{} was changed", exhibit.library);
        let place = Workplace::new(&["sconce-plugin-checkpoints"]);
        fs::write(place.path("plugins").join(&exhibit.library), bytes).expect("copied");
        let hooks = json!([
            {"hook": "exhibit", "config": {"name": "an exhibit"}},
            {"hook": "checkpoint", "config": {"epochs": 1}},
        ]);
        let manifest = edit(tiny(), "/hooks", hooks);
        let first = place.run(&manifest).expect(0, &["an exhibit speaks"]);
        let manifest = edit(manifest, "/train/epochs", json!(3));
        place.write(&manifest);
        let resumed = place.sconce(&["run", "manifest.json", "--resume"]);
        resumed.expect(0, &["an exhibit speaks"]);
        let found = place.read("out/exhibit.txt");
        assert_eq!(found, expected, "{}: {}", exhibit.library, first.stderr);
    }
}

/// What a header declares: each constant, each function, and each structure with its fields, without comments and layout.
fn declarations(header: &str) -> BTreeSet<String> {
    let mut text = String::new();
    let mut rest = header;
    while let Some((before, behind)) = rest.split_once("/*") {
        text += before;
        rest = behind.split_once("*/").map_or("", |(_, behind)| behind);
    }
    text += rest;
    let text = text.replace("\\\n", " ");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (defines, code): (Vec<_>, Vec<_>) = text
        .lines()
        .partition(|line| line.trim_start().starts_with('#'));
    let mut found: BTreeSet<String> = defines.into_iter().map(words).collect();
    let code = code.join("\n");
    for declared in code.split("typedef struct ").skip(1) {
        let name = declared.split_whitespace().next().unwrap_or_default();
        let end = format!("}} {name};");
        let body = declared.split(&end).next().unwrap_or_default();
        found.insert(words(body));
    }
    found
}

#[test]
fn what_a_released_header_declares_is_declared_in_every_later_one() {
    let now = fs::read_to_string(workspace().join("plugin-api/include/sconce.h"));
    let now = declarations(&now.expect("the header"));
    let museum = fs::read_dir(workspace().join("tests/museum")).expect("the museum");
    let headers = museum.flatten().map(|entry| entry.path());
    let headers: Vec<_> = headers
        .filter(|path| path.extension().is_some_and(|it| it == "h"))
        .collect();
    assert!(!headers.is_empty());
    for header in headers {
        let then = declarations(&fs::read_to_string(&header).expect("a header"));
        assert!(then.len() > 150, "{}", then.len());
        let about_versions = |it: &&String| !it.starts_with("#define SCONCE_API_VERSION");
        let missing: Vec<_> = then.difference(&now).filter(about_versions).collect();
        assert!(missing.is_empty(), "{}: {missing:#?}", header.display());
    }
}
