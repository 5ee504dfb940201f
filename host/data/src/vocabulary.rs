//! Conversion between text and tokens.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Unit of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TextUnit {
    /// Bytes: a vocabulary of 256, for any text.
    #[default]
    Byte,
    /// Unicode characters of UTF-8 text: the vocabulary is the set of those in the training part.
    Char,
}

impl TextUnit {
    /// Returns the plural noun, for messages.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            TextUnit::Byte => "bytes",
            TextUnit::Char => "characters",
        }
    }
}

/// A vocabulary, which converts text to tokens and tokens to text.
///
/// ```
/// use sconce_data::Vocabulary;
///
/// let vocabulary = Vocabulary::of_characters("banana");
/// assert_eq!(vocabulary.len(), 3);
/// assert_eq!(vocabulary.encode("nab").ok(), Some(vec![2, 0, 1]));
/// assert_eq!(vocabulary.decode(&[1, 0, 2]), "ban");
/// let unknown = vocabulary.encode("bass").err().map(|unknown| unknown.character);
/// assert_eq!(unknown, Some('s'));
///
/// assert_eq!(Vocabulary::bytes().encode("é").ok(), Some(vec![0xc3, 0xa9]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Vocabulary {
    unit: TextUnit,
    /// Characters in sorted order; empty if tokens are bytes.
    characters: Vec<char>,
}

/// A character that is not in a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{character:?} is not in the vocabulary")]
pub struct Unknown {
    /// Unknown character.
    pub character: char,
    /// Byte offset in the text.
    pub position: usize,
}

impl Vocabulary {
    /// Returns the vocabulary of the 256 bytes.
    pub fn bytes() -> Vocabulary {
        Vocabulary {
            unit: TextUnit::Byte,
            characters: Vec::new(),
        }
    }

    /// Returns the vocabulary of the characters of a text, sorted by code point.
    pub fn of_characters(text: &str) -> Vocabulary {
        Vocabulary::of_kinds(text.chars().collect())
    }

    /// Returns the vocabulary of some characters.
    pub(super) fn of_kinds(characters: BTreeSet<char>) -> Vocabulary {
        Vocabulary {
            unit: TextUnit::Char,
            characters: characters.into_iter().collect(),
        }
    }

    /// Returns the unit of a token.
    pub fn unit(&self) -> TextUnit {
        self.unit
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        match self.unit {
            TextUnit::Byte => 256,
            TextUnit::Char => self.characters.len(),
        }
    }

    /// Whether the vocabulary is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Converts a text to tokens.
    ///
    /// # Errors
    ///
    /// The first character that is not in the vocabulary.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, Unknown> {
        match self.unit {
            TextUnit::Byte => Ok(text.bytes().map(u32::from).collect()),
            TextUnit::Char => self.tokens(text).collect(),
        }
    }

    /// Checks that all characters of a text are in this vocabulary.
    pub(super) fn check(&self, text: &str) -> Result<(), Unknown> {
        match self.unit {
            TextUnit::Byte => Ok(()),
            TextUnit::Char => self.tokens(text).try_for_each(|token| token.map(drop)),
        }
    }

    /// The token of each character.
    fn tokens(&self, text: &str) -> impl Iterator<Item = Result<u32, Unknown>> {
        text.char_indices().map(|(position, character)| {
            let found = self.characters.binary_search(&character);
            found.map(|index| index as u32).map_err(|_| Unknown {
                character,
                position,
            })
        })
    }

    /// Converts tokens to text; unknown tokens and invalid UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[u32]) -> String {
        match self.unit {
            TextUnit::Byte => {
                // 0xff never occurs in UTF-8.
                let byte = |&token: &u32| u8::try_from(token).unwrap_or(0xff);
                let bytes: Vec<u8> = tokens.iter().map(byte).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
            TextUnit::Char => {
                let character = |&token: &u32| self.characters.get(token as usize).copied();
                let characters = tokens.iter().map(character);
                characters
                    .map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect()
            }
        }
    }

    /// Returns the number of bytes of each token.
    pub(super) fn byte_counts(&self) -> Vec<u32> {
        match self.unit {
            TextUnit::Byte => vec![1; 256],
            TextUnit::Char => {
                let characters = self.characters.iter();
                characters
                    .map(|character| character.len_utf8() as u32)
                    .collect()
            }
        }
    }

    /// Returns a printable name for each token: itself if printable, otherwise e.g. `\x0a` or `\n`.
    pub fn names(&self) -> Vec<String> {
        match self.unit {
            TextUnit::Byte => (0..=u8::MAX)
                .map(|byte| match byte {
                    b' '..=b'~' => char::from(byte).to_string(),
                    _ => format!("\\x{byte:02x}"),
                })
                .collect(),
            TextUnit::Char => {
                let name = |character: &char| {
                    if character.is_control() {
                        character.escape_default().to_string()
                    } else {
                        character.to_string()
                    }
                };
                self.characters.iter().map(name).collect()
            }
        }
    }
}

/// Serialised form of a vocabulary.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    unit: TextUnit,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    characters: String,
}

impl From<Vocabulary> for Stored {
    fn from(vocabulary: Vocabulary) -> Stored {
        Stored {
            unit: vocabulary.unit,
            characters: vocabulary.characters.into_iter().collect(),
        }
    }
}

impl TryFrom<Stored> for Vocabulary {
    type Error = &'static str;

    fn try_from(stored: Stored) -> Result<Vocabulary, &'static str> {
        let vocabulary = Vocabulary {
            unit: stored.unit,
            characters: stored.characters.chars().collect(),
        };
        let of_bytes = vocabulary.unit == TextUnit::Byte;
        if of_bytes && !vocabulary.characters.is_empty() {
            return Err("a vocabulary of bytes has no characters of its own");
        }
        let pairs = vocabulary.characters.windows(2);
        let is_sorted = pairs.into_iter().all(|pair| pair.first() < pair.last());
        if !is_sorted {
            return Err("a vocabulary's characters must be sorted, each of them once");
        }
        Ok(vocabulary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back_from_its_tokens() {
        let text = "Öl, wie\nimmer 🙂";
        for vocabulary in [Vocabulary::bytes(), Vocabulary::of_characters(text)] {
            let tokens = vocabulary.encode(text).expect("all are known");
            assert!(tokens.iter().all(|&t| (t as usize) < vocabulary.len()));
            assert_eq!(vocabulary.decode(&tokens), text);
            assert_eq!(vocabulary.names().len(), vocabulary.len());
            let json = serde_json::to_string(&vocabulary).expect("JSON");
            let back: Vocabulary = serde_json::from_str(&json).expect("a vocabulary");
            assert_eq!(back, vocabulary);
        }
        assert_eq!(Vocabulary::of_characters("ab").decode(&[0, 2]), "a\u{fffd}");
        assert_eq!(Vocabulary::bytes().decode(&[97, 256]), "a\u{fffd}");
    }

    #[test]
    fn names_can_be_read() {
        let bytes = Vocabulary::bytes().names();
        assert_eq!(
            [&bytes[0x41], &bytes[0x20], &bytes[0x0a], &bytes[0xff]],
            ["A", " ", "\\x0a", "\\xff"]
        );
        let characters = Vocabulary::of_characters("é\n\u{7f}a").names();
        assert_eq!(characters, ["\\n", "a", "\\u{7f}", "é"]);
    }

    #[test]
    fn unknown_characters_and_unsorted_vocabularies_are_refused() {
        let vocabulary = Vocabulary::of_characters("äb");
        let unknown = vocabulary.encode("bäbc").expect_err("there is no c");
        assert_eq!((unknown.character, unknown.position), ('c', 4));
        for (json, words) in [
            (r#"{"unit": "char", "characters": "ba"}"#, "sorted"),
            (r#"{"unit": "char", "characters": "aa"}"#, "sorted"),
            (r#"{"unit": "byte", "characters": "a"}"#, "of its own"),
        ] {
            let error = serde_json::from_str::<Vocabulary>(json).expect_err(words);
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
