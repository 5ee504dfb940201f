//! The grammar, and generation of its sentences.
//!
//! ```text
//! sentence → subject verb-phrase "." newline
//! subject  → article noun [" (that " verb-phrase ")"]
//! verb-phrase → verb | verb object
//! object   → subject, of any number
//! ```
//!
//! Articles, nouns and verbs agree in number, even across brackets. Brackets are round, square and
//! curly depending on their depth, at most [`DEPTH`]. Every word and every choice is drawn from the
//! stream.

use sconce_ops::random::Stream;

/// Singular and plural form of a word.
type Pair = [&'static str; 2];

const ARTICLES: [Pair; 3] = [["the", "the"], ["a", "some"], ["this", "these"]];
const NOUNS: [Pair; 6] = [
    ["dog", "dogs"],
    ["cat", "cats"],
    ["bird", "birds"],
    ["mouse", "mice"],
    ["child", "children"],
    ["fish", "fish"],
];
const VERBS: [Pair; 4] = [
    ["sleeps", "sleep"],
    ["runs", "run"],
    ["sings", "sing"],
    ["is here", "are here"],
];
const VERBS_WITH_OBJECTS: [Pair; 4] = [
    ["sees", "see"],
    ["hears", "hear"],
    ["likes", "like"],
    ["has met", "have met"],
];
const BRACKETS: [Pair; DEPTH] = [["(", ")"], ["[", "]"], ["{", "}"]];

/// Maximum nesting depth of brackets.
const DEPTH: usize = 3;

/// Returns every character that can occur, with repetitions.
pub(super) fn characters() -> String {
    let words = [
        &ARTICLES[..],
        &NOUNS,
        &VERBS,
        &VERBS_WITH_OBJECTS,
        &BRACKETS,
    ];
    let words = words.iter().flat_map(|pairs| pairs.iter().flatten());
    words.copied().chain(["that .\n"]).collect()
}

/// Appends a sentence.
pub(super) fn write(stream: &mut Stream, text: &mut String) {
    let number = stream.below(2) as usize;
    noun_phrase(stream, number, 0, text);
    text.push(' ');
    verb_phrase(stream, number, 0, text);
    text.push_str(".\n");
}

fn noun_phrase(stream: &mut Stream, number: usize, depth: usize, text: &mut String) {
    text.push_str(choose(&ARTICLES, number, stream));
    text.push(' ');
    text.push_str(choose(&NOUNS, number, stream));
    let Some([open, close]) = BRACKETS.get(depth) else {
        return;
    };
    if stream.below(3) == 0 {
        text.push(' ');
        text.push_str(open);
        text.push_str("that ");
        verb_phrase(stream, number, depth + 1, text);
        text.push_str(close);
    }
}

fn verb_phrase(stream: &mut Stream, number: usize, depth: usize, text: &mut String) {
    if stream.below(2) == 0 {
        text.push_str(choose(&VERBS, number, stream));
        return;
    }
    text.push_str(choose(&VERBS_WITH_OBJECTS, number, stream));
    text.push(' ');
    let number = stream.below(2) as usize;
    noun_phrase(stream, number, depth, text);
}

fn choose(pairs: &[Pair], number: usize, stream: &mut Stream) -> &'static str {
    let pair = pairs.get(stream.below(pairs.len() as u64) as usize);
    pair.and_then(|pair| pair.get(number))
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sconce_ops::random;

    fn sentence(index: u64) -> String {
        let mut text = String::new();
        write(&mut random::stream(1, "grammar/test", 0, index), &mut text);
        text
    }

    /// Returns the rest of `text` after one of the pairs' words in a number.
    fn word<'a>(text: &'a str, pairs: &[Pair], number: usize) -> Option<&'a str> {
        let rest = |pair: &Pair| text.strip_prefix(pair[number]);
        let is_whole = |rest: &&str| !rest.starts_with(char::is_alphabetic);
        pairs.iter().filter_map(rest).find(is_whole)
    }

    /// Returns the rest of `text` after a noun phrase; a parser written independently of the generator.
    fn parse_noun(text: &str, number: usize, depth: usize) -> Option<&str> {
        let rest = word(text, &ARTICLES, number)?.strip_prefix(' ')?;
        let rest = word(rest, &NOUNS, number)?;
        let Some([open, close]) = BRACKETS.get(depth) else {
            return Some(rest);
        };
        let Some(inner) = rest.strip_prefix(&format!(" {open}that ")) else {
            return Some(rest);
        };
        parse_verb(inner, number, depth + 1)?.strip_prefix(close)
    }

    fn parse_verb(text: &str, number: usize, depth: usize) -> Option<&str> {
        if let Some(rest) = word(text, &VERBS, number) {
            return Some(rest);
        }
        let rest = word(text, &VERBS_WITH_OBJECTS, number)?.strip_prefix(' ')?;
        (0..2).find_map(|number| parse_noun(rest, number, depth))
    }

    fn is_sentence(text: &str) -> bool {
        (0..2).any(|number| {
            let verb = parse_noun(text, number, 0).and_then(|rest| rest.strip_prefix(' '));
            verb.and_then(|rest| parse_verb(rest, number, 0)) == Some(".\n")
        })
    }

    #[test]
    fn every_sentence_is_one_of_the_grammar() {
        let all: Vec<String> = (0..500).map(sentence).collect();
        for text in &all {
            assert!(is_sentence(text), "{text}");
            assert!(text.chars().all(|c| characters().contains(c)), "{text}");
        }
        for bracket in ["(that", "[that", "{that"] {
            assert!(all.iter().any(|text| text.contains(bracket)), "{bracket}");
        }
        assert!(is_sentence(
            "the dog (that sees some cats [that sleep]) runs.\n"
        ));
        for wrong in [
            "the dog run.\n",
            "this dogs run.\n",
            "the dog (that sees some cats [that sleeps]) runs.\n",
            "the dog (that sees some cats) run.\n",
            "the dog (that runs] sleeps.\n",
            "the dog runs",
        ] {
            assert!(!is_sentence(wrong), "{wrong}");
        }
    }

    #[test]
    fn sentences_are_those_of_their_streams() {
        assert_eq!(sentence(3), sentence(3));
        assert_ne!(sentence(3), sentence(4));
    }
}
