//! Where a text is cut before it is encoded: at ends of lines, where hardly any tokenizer has a token across.
//!
//! The cuts depend on the text alone, not on how it is read or by how many threads. A piece is a few kB: an encoding takes memory
//! for each of its characters.

/// Smallest piece in bytes, but for the last of a document.
const LEAST: usize = 4096;

/// Largest piece in bytes.
pub(in crate::tokens) const MOST: usize = 1 << 16;

/// Returns the length of the first piece of a text that begins with `bytes`; none if more of the text must be known. `is_all`:
/// there is no more.
pub(in crate::tokens) fn first_piece(bytes: &[u8], is_all: bool) -> Option<usize> {
    if is_all && bytes.len() <= LEAST {
        return Some(bytes.len());
    }
    if !is_all && bytes.len() <= MOST {
        return None;
    }
    // After a line's end and before what is not white space: runs of it are tokens of their own.
    let lines = bytes
        .get(LEAST - 1..MOST.min(bytes.len()))
        .unwrap_or_default();
    let next_is_word = |place: usize| match bytes.get(place + 1) {
        Some(next) => !next.is_ascii_whitespace(),
        None => true,
    };
    let line_ends = lines.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let mut line_ends = line_ends.map(|(place, _)| place + LEAST - 1);
    if let Some(place) = line_ends.find(|&place| next_is_word(place)) {
        return Some(place + 1);
    }
    if bytes.len() <= MOST {
        return Some(bytes.len());
    }
    // A long line: before its last word, which has its space with it; otherwise between two characters.
    let start = bytes.get(..MOST).unwrap_or_default();
    let space = start.iter().rposition(|byte| *byte == b' ');
    if let Some(place) = space.filter(|&place| place > 0) {
        return Some(place);
    }
    let is_boundary = |&place: &usize| bytes.get(place).is_none_or(|byte| byte & 0xc0 != 0x80);
    (MOST - 3..=MOST).rev().find(is_boundary).or(Some(MOST))
}

/// Returns the pieces of a text that is complete.
pub(in crate::tokens) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = first_piece(rest.as_bytes(), true)?;
        let (piece, after) = rest.split_at_checked(length)?;
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_with_lines_and_have_all_of_the_text() {
        let line = "äb c\n\n  ";
        let text = line.repeat(10_000);
        let found: Vec<&str> = pieces(&text).collect();
        assert_eq!(found.concat(), text);
        assert!(found.len() > 1);
        // No line end here is followed by a word.
        assert!(found.iter().all(|piece| piece.len() <= MOST));

        let text = "some words\n".repeat(2000);
        let found: Vec<&str> = pieces(&text).collect();
        assert_eq!(found.concat(), text);
        for piece in &found {
            assert!(piece.ends_with('\n') && piece.len() < LEAST + 11);
        }
    }

    #[test]
    fn long_lines_are_cut_between_words_or_characters() {
        let words = "many words ".repeat(20_000);
        let found: Vec<&str> = pieces(&words).collect();
        assert_eq!(found.concat(), words);
        assert!(found.iter().skip(1).all(|piece| piece.starts_with(' ')));
        let one = "ä€".repeat(40_000);
        let found: Vec<&str> = pieces(&one).collect();
        assert_eq!(found.concat(), one);
        assert!(found.len() > 2);
        assert_eq!(pieces("").count(), 0);
        assert_eq!(first_piece(b"more to come", false), None);
    }
}
