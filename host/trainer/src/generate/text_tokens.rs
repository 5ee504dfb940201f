//! Texts as tokens of a model.

use crate::data::{Preprocessing, TokensTransform, Transform, Vocabulary};

/// What a model of text makes tokens by, and how many it sees at once.
#[derive(Clone, Copy)]
pub(super) enum TextTokens<'a> {
    /// Bytes or characters.
    Own(&'a Vocabulary, usize),
    /// A tokenizer's, which is known.
    Tokenizer(&'a TokensTransform),
}

impl<'a> TextTokens<'a> {
    /// Those of a model, if it is one of text.
    pub(super) fn of(preprocessing: &'a Preprocessing) -> Option<TextTokens<'a>> {
        let tokens = match &preprocessing.transform {
            Transform::Text(text) => {
                return Some(TextTokens::Own(text.vocabulary(), text.context()));
            }
            Transform::Tokens(tokens) => tokens,
            Transform::Rows(rows) if rows.predicts_tokens() => rows.tokens(),
            _ => return None,
        };
        tokens
            .tokenizer()
            .is_some()
            .then_some(TextTokens::Tokenizer(tokens))
    }

    /// Number of tokens that the model sees at once.
    pub(super) fn context(self) -> usize {
        match self {
            TextTokens::Own(_, context) => context,
            TextTokens::Tokenizer(tokens) => tokens.context(),
        }
    }

    /// Number of different tokens.
    pub(super) fn vocabulary(self) -> usize {
        match self {
            TextTokens::Own(vocabulary, _) => vocabulary.len(),
            TextTokens::Tokenizer(tokens) => tokens.vocabulary(),
        }
    }

    /// Token at the end of documents, if there is one.
    pub(super) fn end(self) -> Option<u32> {
        match self {
            TextTokens::Own(..) => None,
            TextTokens::Tokenizer(tokens) => tokens.end(),
        }
    }

    /// Tokens of a text, or what is wrong with it.
    pub(super) fn encode(self, text: &str) -> Result<Vec<u32>, String> {
        match self {
            TextTokens::Own(vocabulary, _) => vocabulary
                .encode(text)
                .map_err(|unknown| format!("{unknown}, at byte {}", unknown.position)),
            TextTokens::Tokenizer(tokens) => match tokens.tokenizer() {
                Some(tokenizer) => tokenizer.encode(text, true),
                None => Err("the tokenizer is not known".to_owned()),
            },
        }
    }

    /// The text of tokens; those that are unknown become U+FFFD.
    pub(super) fn decode(self, tokens: &[u32]) -> String {
        let replacement = || char::REPLACEMENT_CHARACTER.to_string();
        match self {
            TextTokens::Own(vocabulary, _) => vocabulary.decode(tokens),
            TextTokens::Tokenizer(transform) => match transform.tokenizer() {
                Some(tokenizer) => tokenizer
                    .decode(tokens, false)
                    .unwrap_or_else(|_| replacement()),
                None => replacement(),
            },
        }
    }
}
