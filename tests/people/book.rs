//! The book: every page is in it, and what it links to is there.

use std::collections::BTreeSet;
use std::fs;

use sconce_tests::generated::assert_file;
use sconce_tests::{Workplace, artifacts, workspace};
use serde_json::Value;

/// The targets of a page's links, without those to other sites.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .collect()
}

/// `UPDATE_EXPECT=1` rewrites the page.
#[test]
fn the_code_of_the_page_about_c_is_the_examples() {
    let page = workspace().join("docs/hooks-in-c.md");
    let kept = fs::read_to_string(&page).expect("the page");
    let (head, _) = kept.split_once("```c\n").expect("the page has code in C");
    let code = workspace().join("examples/clip-in-c/clip.c");
    let code = fs::read_to_string(code).expect("the example");
    assert_file(page, &format!("{head}```c\n{code}```\n"));
}

#[test]
#[should_panic(expected = "page.md:2 is out of date")]
fn the_first_line_that_is_out_of_date_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("page.md");
    fs::write(&page, "one\ntwo\n").expect("the page is written");
    assert_file(&page, "one\ntwo\n");
    assert_file(&page, "one\n2\n");
}

fn is_page(name: &str) -> bool {
    std::path::Path::new(name).extension() == Some("md".as_ref())
}

#[test]
fn every_page_is_in_the_book() {
    let docs = workspace().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("the summary");
    let listed: BTreeSet<String> = links(&summary).into_iter().map(str::to_owned).collect();
    let pages = fs::read_dir(&docs).expect("the pages").map(|entry| {
        let name = entry.expect("an entry").file_name();
        name.into_string().expect("a plain name")
    });
    let pages: BTreeSet<String> = pages
        .filter(|name| is_page(name) && name != "SUMMARY.md")
        .collect();
    assert_eq!(listed, pages);
}

#[test]
fn pages_that_are_named_are_there() {
    let root = workspace();
    let docs = fs::read_dir(root.join("docs")).expect("the pages");
    let files = docs.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|path| path.is_file()).collect();
    files.extend(
        [
            "README.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "SECURITY.md",
        ]
        .map(|name| root.join(name)),
    );
    let mut looked_at = 0;
    for file in files {
        let text = fs::read_to_string(&file).expect("a page");
        let quoted = text.split('`').skip(1).step_by(2);
        for page in quoted.filter(|name| name.starts_with("docs/") && is_page(name)) {
            looked_at += 1;
            let is_pattern = page.contains('*');
            assert!(
                is_pattern || root.join(page).exists(),
                "{}: {page}",
                file.display()
            );
        }
    }
    assert!(looked_at > 20, "only {looked_at} names");
}

/// In the second columns of `coming-from.md`, what is neither a hook nor a key of the manifest: names of the other systems,
/// requests, tags, directories.
const OTHERS: [&str; 13] = [
    "adamw_torch",
    "checkpoints",
    "clipnorm",
    "early_stopping_patience",
    "early_stopping_threshold",
    "failed",
    "interrupted",
    "restore_best_weights",
    "save_best_only",
    "save_freq",
    "save_weights_only",
    "start_from_epoch",
    "validate_now",
];

/// All keys and texts of a JSON value.
fn words(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                found.insert(key.strip_prefix("config of ").unwrap_or(key).to_owned());
                words(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| words(value, found)),
        Value::String(text) => drop(found.insert(text.clone())),
        _ => {}
    }
}

#[test]
fn what_stands_for_the_names_of_other_systems_is_there() {
    let plugins = artifacts().directory().display().to_string();
    let schema = Workplace::new(&[]).sconce(&["schema", "--plugins", &plugins]);
    let schema: Value = serde_json::from_str(&schema.expect(0, &[]).stdout).expect("JSON");
    let mut known = BTreeSet::from(OTHERS.map(str::to_owned));
    words(&schema, &mut known);
    let page = fs::read_to_string(workspace().join("docs/coming-from.md")).expect("the page");
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.[]".contains(c);
    let mut looked_at = 0;
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let here = line.splitn(3, '|').nth(2).unwrap_or_default();
        let quoted = here.split('`').skip(1).step_by(2);
        for name in quoted.filter(|name| name.chars().all(is_name) && !name.starts_with('-')) {
            looked_at += 1;
            let mut parts = name.split(['.', '[', ']']).filter(|part| !part.is_empty());
            assert!(
                parts.all(|part| known.contains(part)),
                "`{name}` in: {line}"
            );
        }
    }
    assert!(looked_at > 100, "only {looked_at} names");
}
