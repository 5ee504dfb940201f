//! Comments in a manifest, as JSON with comments (`jsonc`) has them: `// …` to the end of a line, and `/* … */`.

use std::borrow::Cow;

/// Returns the text with spaces in the place of comments, so that everything else stays where it is. A comment that isn't
/// closed stays.
pub(super) fn blanked(text: &str) -> Cow<'_, str> {
    if !text.contains("//") && !text.contains("/*") {
        return Cow::Borrowed(text);
    }
    let mut blanked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.find(['"', '/']) {
        let (before, from) = rest.split_at(next);
        blanked.push_str(before);
        let length = match from.get(..2) {
            Some("//") => from.find('\n').unwrap_or(from.len()),
            Some("/*") => match from.get(2..).and_then(|inside| inside.find("*/")) {
                Some(end) => end + 4,
                None => break,
            },
            _ => {
                let length = if from.starts_with('"') {
                    text_length(from)
                } else {
                    1
                };
                let (kept, after) = from.split_at(length);
                blanked.push_str(kept);
                rest = after;
                continue;
            }
        };
        let (comment, after) = from.split_at(length);
        for character in comment.chars() {
            match character {
                '\n' | '\r' => blanked.push(character),
                character => blanked.extend(std::iter::repeat_n(' ', character.len_utf8())),
            }
        }
        rest = after;
    }
    blanked.push_str(&text[blanked.len()..]);
    Cow::Owned(blanked)
}

/// Length of the text in quotes that begins here, or of all that follows if it isn't closed.
fn text_length(from: &str) -> usize {
    let mut is_escaped = false;
    for (place, character) in from.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return place + 1,
            _ => {}
        }
    }
    from.len()
}

#[cfg(test)]
mod tests {
    use super::blanked;

    #[test]
    fn comments_become_spaces_and_all_else_stays_in_its_place() {
        for (text, expected) in [
            ("{} // end", "{}       "),
            ("{ // a\n \"b\": 1 }", "{     \n \"b\": 1 }"),
            ("/* é\n */{}", "     \n   {}"),
            (
                "{\"a\": \"// no /* comment */\"}",
                "{\"a\": \"// no /* comment */\"}",
            ),
            ("[\"\\\"//\", 1 /**/]", "[\"\\\"//\", 1     ]"),
            ("{} /* open", "{} /* open"),
            ("1 / 2 // x", "1 / 2     "),
            ("\"open // x", "\"open // x"),
            ("/", "/"),
        ] {
            let found = blanked(text);
            assert_eq!(found, expected, "{text}");
            assert_eq!(found.len(), text.len(), "{text}");
        }
    }
}
