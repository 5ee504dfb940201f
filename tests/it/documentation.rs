//! `sconce docs`: all pages are there, and what is in them is found.

use std::fs;

use sconce_tests::{Workplace, workspace};

#[test]
fn every_page_is_in_the_summary_and_found_by_its_title() {
    let place = Workplace::new(&[]);
    let docs = workspace().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("a summary");
    let mut pages = 0;
    for entry in fs::read_dir(&docs).expect("the pages") {
        let path = entry.expect("a page").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.ends_with(".md") || name == "SUMMARY.md" {
            continue;
        }
        pages += 1;
        assert!(
            summary.contains(&format!("({name})")),
            "{name} is not in it"
        );
        let text = fs::read_to_string(&path).expect("a page");
        let title = text.lines().next().unwrap_or_default();
        let title = title.trim_start_matches("# ").replace('`', "");
        let page = name.trim_end_matches(".md");
        let found = place.sconce(&["docs", &title]).expect(0, &[]).stdout;
        let is_page = |line: &str| line.contains(&format!("/{page}."));
        assert!(found.lines().any(is_page), "{name}:\n{found}");
    }
    assert!(pages > 30, "{pages} pages");
}

#[test]
fn sections_are_found_by_their_words_with_an_excerpt_and_an_address() {
    let place = Workplace::new(&[]);
    let found = place
        .sconce(&["docs", "PREDICTIONS", "standard"])
        .expect(0, &[]);
    let mut lines = found.stdout.lines();
    let heading = "A trained model on its own: Predictions";
    assert!(lines.any(|line| line == heading), "{}", found.stdout);
    let excerpt = lines.next().unwrap_or_default().to_lowercase();
    assert!(
        excerpt.contains("predictions") || excerpt.contains("standard"),
        "{excerpt}"
    );
    let address = lines.next().unwrap_or_default();
    assert!(address.contains("/model-directory."), "{address}");
}

#[test]
fn without_words_it_says_where_the_pages_are_and_without_a_match_that_there_is_none() {
    let place = Workplace::new(&[]);
    let shown = place.sconce(&["docs", "--no-open"]).expect(0, &[]).stdout;
    for words in ["documentation: /", "examples: /"] {
        assert!(shown.contains(words), "{shown}");
    }
    let message = "no section of the documentation contains `optimizer zebra`";
    place
        .sconce(&["docs", "optimizer", "zebra"])
        .expect(2, &[message]);
}
