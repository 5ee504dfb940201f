//! User input as shown in messages: shortened, and without terminal control characters.

use crate::printable::{breaks_line, push, steers};

/// Number of characters of a name or value that a message shows.
const LONGEST: usize = 60;

/// Shortens a name or value to one line of about sixty characters.
pub fn shortened(text: &str) -> String {
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

/// Escapes terminal control characters in a multi-line text. If it has more than `longest`
/// characters, the middle is cut out.
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
