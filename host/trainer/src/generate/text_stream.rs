//! The text of tokens that come one after the other.

/// Turns tokens into text as soon as it can't change any more.
///
/// A character may be cut between tokens, and a token's text may depend on the one before it (a space at the start): text is what
/// decoding with the next token adds to decoding without it, held back while that ends in U+FFFD.
pub struct TextStream<D> {
    decode: D,
    tokens: Vec<u32>,
    /// Those before it are the context of what follows: their text is written.
    unwritten: usize,
}

/// No character and no longer sequence of broken ones needs as many tokens.
const MOST_HELD: usize = 16;

impl<D: Fn(&[u32]) -> String> TextStream<D> {
    /// Creates a stream after some tokens, whose text is known.
    pub fn after(tokens: &[u32], decode: D) -> TextStream<D> {
        let start = tokens.len().saturating_sub(MOST_HELD);
        let tokens = tokens.get(start..).unwrap_or_default().to_vec();
        TextStream {
            decode,
            unwritten: tokens.len(),
            tokens,
        }
    }

    /// Adds a token; returns the text that is complete with it.
    pub fn push(&mut self, token: u32) -> String {
        self.tokens.push(token);
        let is_long = self.tokens.len() - self.unwritten >= MOST_HELD;
        let text = self.new_text();
        let is_open = text.is_empty() || text.ends_with(char::REPLACEMENT_CHARACTER);
        if is_open && !is_long {
            return String::new();
        }
        // What was written is the context of what comes; nothing before it is looked at again.
        self.tokens.drain(..self.unwritten);
        self.unwritten = self.tokens.len();
        text
    }

    /// The text that was held back.
    pub fn finish(self) -> String {
        self.new_text()
    }

    fn new_text(&self) -> String {
        let decoded = |end: usize| (self.decode)(self.tokens.get(..end).unwrap_or_default());
        let (before, with) = (decoded(self.unwritten), decoded(self.tokens.len()));
        match with.strip_prefix(&before) {
            Some(new) => new.to_owned(),
            // Broken characters before it have become one.
            None => with.chars().skip(before.chars().count()).collect(),
        }
    }
}

/// Finds texts that end what is generated, also where they come in parts.
pub struct StopTexts {
    texts: Vec<String>,
    /// What may be the beginning of one of them.
    held: String,
}

impl StopTexts {
    /// Looks for these texts; empty ones are never found.
    pub fn new(texts: &[String]) -> StopTexts {
        let texts = texts.iter().filter(|text| !text.is_empty());
        StopTexts {
            texts: texts.cloned().collect(),
            held: String::new(),
        }
    }

    /// Adds a text: returns what can be shown, and whether an end was found, of which nothing is shown.
    pub fn push(&mut self, text: &str) -> (String, bool) {
        self.held.push_str(text);
        let found = self.texts.iter().filter_map(|stop| self.held.find(stop));
        if let Some(end) = found.min() {
            self.held.truncate(end);
            return (std::mem::take(&mut self.held), true);
        }
        let is_beginning = |rest: &str| self.texts.iter().any(|stop| stop.starts_with(rest));
        let mut starts = self.held.char_indices().map(|(at, _)| at);
        let kept = starts.find(|&at| self.held.get(at..).is_some_and(is_beginning));
        let rest = self.held.split_off(kept.unwrap_or(self.held.len()));
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// What was held back.
    pub fn finish(self) -> String {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bytes(tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().map(|&token| token as u8).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn a_character_is_shown_when_it_is_whole() {
        let mut stream = TextStream::after(&[u32::from(b'x')], of_bytes);
        let bytes = "a€b".bytes();
        let shown: Vec<String> = bytes.map(|byte| stream.push(byte.into())).collect();
        assert_eq!(shown, ["a", "", "", "€", "b"]);
        assert_eq!(stream.push(0xe2), "");
        assert_eq!(stream.finish(), "\u{fffd}");
    }

    #[test]
    fn broken_characters_are_not_held_for_ever() {
        let mut stream = TextStream::after(&[], of_bytes);
        let shown: String = (0..40).map(|_| stream.push(0xff)).collect();
        assert!(shown.chars().count() >= 32, "{shown}");
        assert_eq!(stream.push(b'a'.into()).chars().last(), Some('a'));
    }

    #[test]
    fn a_decoder_that_takes_the_first_space_away_loses_none_between_tokens() {
        let words = ["▁a", "▁b", "c"];
        let decode = |tokens: &[u32]| {
            let text: String = tokens.iter().map(|&token| words[token as usize]).collect();
            text.replace('▁', " ").trim_start().to_owned()
        };
        let mut stream = TextStream::after(&[0], decode);
        assert_eq!([1, 2, 1].map(|token| stream.push(token)), [" b", "c", " b"]);
    }

    #[test]
    fn an_end_is_found_in_parts_and_not_shown() {
        let mut stops = StopTexts::new(&["\n\n".to_owned(), "END".to_owned()]);
        assert_eq!(stops.push("one\n"), ("one".to_owned(), false));
        assert_eq!(stops.push("two E"), ("\ntwo ".to_owned(), false));
        assert_eq!(stops.push("N"), (String::new(), false));
        assert_eq!(stops.push("Dx"), (String::new(), true));
        let mut stops = StopTexts::new(&["END".to_owned()]);
        assert_eq!(stops.push("EN"), (String::new(), false));
        assert_eq!(stops.finish(), "EN");
    }
}
