//! The book: every page is in it, and what it links to is there.

use std::collections::BTreeSet;
use std::fs;

use sconce_tests::workspace;

/// The targets of a page's links, without those to other sites.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1);
    targets
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .collect()
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
    let mut files: Vec<_> = docs.map(|entry| entry.expect("an entry").path()).collect();
    files.extend(
        [
            "README.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "SECURITY.md",
        ]
        .map(|name| root.join(name)),
    );
    for file in files {
        let text = fs::read_to_string(&file).expect("a page");
        let quoted = text.split('`').skip(1).step_by(2);
        for page in quoted.filter(|name| name.starts_with("docs/") && is_page(name)) {
            let is_pattern = page.contains('*');
            assert!(
                is_pattern || root.join(page).exists(),
                "{}: {page}",
                file.display()
            );
        }
    }
}
