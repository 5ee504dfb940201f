//! Escaping of untrusted text for terminals.
//!
//! Hooks, data, checkpoints, file names and other plugins' metadata contain arbitrary text. None of
//! it may clear the screen, change colours, reorder the displayed text or pass for a line of the
//! host. Everything the program prints passes through one of these functions, in the module that
//! writes it: `log` and [`crate::diagnostic::render`] for standard error, `cli::output` for
//! standard output, `ui::view` for the live view.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character controls the terminal instead of being shown: control characters except line
/// feeds and tabs, those that change the writing direction, and invisible ones that no script needs, such as a space of
/// zero width, with which two keys look the same.
pub fn steers(c: char) -> bool {
    let turns = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{fff9}'..='\u{fffb}'
    );
    let is_invisible = matches!(
        c,
        '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{feff}'
    );
    turns || is_invisible || c.is_control() && c != '\n' && c != '\t'
}

/// Whether a character can't appear within a single line.
pub fn breaks_line(c: char) -> bool {
    steers(c) || c == '\n' || c == '\t'
}

/// Escapes control characters in a multi-line text as Rust does: `\u{1b}`.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, steers)
}

/// Escapes a text into a single line: line feeds and tabs are escaped too.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, breaks_line)
}

/// Removes everything that [`one_line`] would escape, for fields of fixed width.
pub fn stripped(text: &str) -> String {
    text.chars().filter(|&c| !breaks_line(c)).collect()
}

/// Escapes characters in JSON text that JSON allows but a terminal obeys. The document stays the
/// same: valid JSON has them only inside strings.
pub fn json(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if steers(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string can't fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Appends a character, escaped as `
/// ` or `\u{1b}` where `is_escaped` says so.
pub fn push(shown: &mut String, c: char, is_escaped: impl Fn(char) -> bool) {
    if is_escaped(c) {
        shown.extend(c.escape_default());
    } else {
        shown.push(c);
    }
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool + Copy) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        push(&mut shown, c, is_escaped);
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Control characters (C0 and C1), DEL, line separators, direction controls and invisible characters.
    const HOSTILE: &str = "a\x1b[2J\x07\r\x7f\u{85}\u{9b}31m\u{202e}b\u{2066}\u{2069}\u{2028}\u{61c}\u{200f}\u{200b}\u{feff}c";

    #[test]
    fn nothing_steers_any_more() {
        for shown in [lines(HOSTILE), one_line(HOSTILE), json(HOSTILE)] {
            assert!(!shown.contains(steers), "{shown:?}");
            assert!(shown.starts_with('a') && shown.ends_with('c'), "{shown:?}");
        }
        assert_eq!(stripped("a\x1b[2J\nb\u{202e}"), "a[2Jb");
        // The joiner in an emoji stays.
        for text in ["é → 日本\n\tb", "👩\u{200d}💻"] {
            assert!(matches!(lines(text), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn line_ends_stay_in_texts_of_several_lines_alone() {
        assert_eq!(lines("a\nb\tc\r"), "a\nb\tc\\r");
        assert_eq!(one_line("a\nb\tc\r"), "a\\nb\\tc\\r");
    }

    #[test]
    fn json_stays_the_same_document() {
        let value = serde_json::json!({ HOSTILE: [HOSTILE, "\"\\"] });
        for text in [value.to_string(), format!("{value:#}")] {
            let read: serde_json::Value = serde_json::from_str(&json(&text)).expect("JSON");
            assert_eq!(read, value);
        }
    }
}
