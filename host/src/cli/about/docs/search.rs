//! Search for words in the pages' sections.

use super::pages::{Section, plain};

/// Longest excerpt, in characters.
const EXCERPT: usize = 110;
/// A word in a section's heading counts as much as this many in its text.
const IN_HEADING: usize = 20;
/// Occurrences of a word in a text beyond this many don't count: a long table isn't better for being long.
const IN_TEXT: usize = 5;

/// A section with all the words.
pub(super) struct Found<'a> {
    pub(super) section: &'a Section,
    /// The first line of the text with the most of the words; empty if the section has no text.
    pub(super) excerpt: String,
}

/// Finds the sections in which all words occur, regardless of case; the best first, then in the pages' order.
pub(super) fn search<'a>(sections: &'a [Section], words: &[String]) -> Vec<Found<'a>> {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let mut ranked: Vec<(usize, Found<'a>)> = (sections.iter())
        .filter_map(|section| {
            let score = score(section, &words)?;
            let excerpt = excerpt(section, &words);
            Some((score, Found { section, excerpt }))
        })
        .collect();
    ranked.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    ranked.into_iter().map(|(_, found)| found).collect()
}

/// How well a section fits; none if it lacks a word.
fn score(section: &Section, words: &[String]) -> Option<usize> {
    let heading = section.heading.to_lowercase();
    let text = section.lines.join("\n").to_lowercase();
    let mut score = 0;
    for word in words {
        let in_heading = usize::from(heading.contains(word.as_str())) * IN_HEADING;
        let in_text = text.matches(word.as_str()).count().min(IN_TEXT);
        if in_heading + in_text == 0 {
            return None;
        }
        score += in_heading + in_text;
    }
    Some(score)
}

/// The first line of the section with the most of the words.
fn excerpt(section: &Section, words: &[String]) -> String {
    let lines = section.lines.iter().filter(|line| !line.trim().is_empty());
    let missing = |line: &&String| {
        let line = line.to_lowercase();
        let is_missing = |word: &&String| !line.contains(word.as_str());
        words.iter().filter(is_missing).count()
    };
    let line = lines.min_by_key(missing).map_or("", String::as_str);
    let text = plain(&line.replace('|', " "));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    around(&text, words)
}

/// At most [`EXCERPT`] characters of a text, around the first of the words.
fn around(text: &str, words: &[String]) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= EXCERPT {
        return text.to_owned();
    }
    let lower = text.to_lowercase();
    let at = (words.iter())
        .filter_map(|word| lower.find(word.as_str()))
        .min();
    let before = at.and_then(|at| lower.get(..at)).unwrap_or_default();
    let from = before.chars().count().saturating_sub(EXCERPT / 3);
    let part: String = characters.iter().skip(from).take(EXCERPT).collect();
    let start = if from > 0 { "…" } else { "" };
    let end = if from + EXCERPT < characters.len() {
        "…"
    } else {
        ""
    };
    format!("{start}{}{end}", part.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::about::docs::pages::split;

    #[test]
    fn headings_come_first_and_every_word_counts() {
        let text = "# Training\nThe rate is warmed up.\n## Warm up\nSlowly.\n## Decay\nNo rate.\n";
        let sections = split("training", text);
        let find = |words: &[&str]| -> Vec<(String, String)> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let found = search(&sections, &words);
            let pair = |found: &Found<'_>| (found.section.heading.clone(), found.excerpt.clone());
            found.iter().map(pair).collect()
        };
        let pair = |heading: &str, excerpt: &str| (heading.to_owned(), excerpt.to_owned());
        assert_eq!(
            find(&["WARM"]),
            [
                pair("Warm up", "Slowly."),
                pair("Training", "The rate is warmed up.")
            ]
        );
        assert_eq!(find(&["rate", "no"]), [pair("Decay", "No rate.")]);
        assert_eq!(find(&["nowhere"]), []);
    }

    #[test]
    fn a_long_line_is_cut_around_the_word_even_between_letters_of_several_bytes() {
        let text = format!("{} needle {}", "ü".repeat(300), "ß".repeat(300));
        let shown = around(&text, &["needle".to_owned()]);
        assert!(shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert!(shown.contains(" needle ß"), "{shown}");
        assert_eq!(shown.chars().count(), EXCERPT + 2);
    }
}
