//! What the user wrote, as a message shows it: without characters that steer a terminal, and short.

use crate::printable::{breaks_line, push, steers};

/// How many characters of a name or value a message shows.
const LONGEST: usize = 60;

/// A name or value in one line of about sixty characters.
pub(crate) fn shortened(text: &str) -> String {
    let mut left = text.chars();
    let mut shown = String::new();
    for c in left.by_ref().take(LONGEST) {
        push(&mut shown, c, breaks_line);
    }
    if left.next().is_some() {
        shown.push('…');
    }
    shown
}

/// A text of several lines, without what steers a terminal; of more than `longest` characters the
/// first and the last.
pub(super) fn tamed(text: &str, longest: usize) -> String {
    let count = text.chars().count();
    let mut shown = String::with_capacity(text.len().min(4 * longest));
    let half = longest / 2;
    for (index, c) in text.chars().enumerate() {
        if count <= longest || index < half || index >= count - half {
            push(&mut shown, c, steers);
        } else if index == half {
            shown.push('…');
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_short_line() {
        assert_eq!(shortened("epochs"), "epochs");
        assert_eq!(shortened("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        assert_eq!(shortened("\u{9b}\u{202e}é"), "\\u{9b}\\u{202e}é");
        let long = shortened(&"é".repeat(300_000));
        assert_eq!(long, format!("{}…", "é".repeat(60)));
    }

    #[test]
    fn long_texts_keep_both_ends() {
        assert_eq!(tamed("two\nlines\r", 20), "two\nlines\\r");
        assert_eq!(tamed("0123456789", 10), "0123456789");
        assert_eq!(tamed("0123456789a", 4), "01…9a");
    }
}
