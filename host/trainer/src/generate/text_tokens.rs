//! Texts as tokens of a model.

use crate::data::{
    ChatQuestion, Preprocessing, RowsTransform, TokensTransform, Transform, Vocabulary,
};

/// What a model of text makes tokens by, and how many it sees at once.
#[derive(Clone, Copy)]
pub(super) enum TextTokens<'a> {
    /// Bytes or characters.
    Own(&'a Vocabulary, usize),
    /// A tokenizer's, which is known.
    Tokenizer(&'a TokensTransform),
    /// Those of rows, which may be conversations.
    Rows(&'a RowsTransform),
}

impl<'a> TextTokens<'a> {
    /// Those of a model, if it is one of text.
    pub(super) fn of(preprocessing: &'a Preprocessing) -> Option<TextTokens<'a>> {
        let text = match &preprocessing.transform {
            Transform::Text(text) => {
                return Some(TextTokens::Own(text.vocabulary(), text.context()));
            }
            Transform::Tokens(tokens) => TextTokens::Tokenizer(tokens),
            Transform::Rows(rows) if rows.predicts_tokens() => TextTokens::Rows(rows),
            _ => return None,
        };
        text.tokens()?.tokenizer().is_some().then_some(text)
    }

    /// What is kept of a tokenizer's tokens, if they are one's.
    fn tokens(self) -> Option<&'a TokensTransform> {
        match self {
            TextTokens::Own(..) => None,
            TextTokens::Tokenizer(tokens) => Some(tokens),
            TextTokens::Rows(rows) => Some(rows.tokens()),
        }
    }

    /// Number of tokens that the model sees at once.
    pub(super) fn context(self) -> usize {
        match self {
            TextTokens::Own(_, context) => context,
            TextTokens::Tokenizer(tokens) => tokens.context(),
            TextTokens::Rows(rows) => rows.tokens().context(),
        }
    }

    /// Number of different tokens.
    pub(super) fn vocabulary(self) -> usize {
        match self {
            TextTokens::Own(vocabulary, _) => vocabulary.len(),
            TextTokens::Tokenizer(tokens) => tokens.vocabulary(),
            TextTokens::Rows(rows) => rows.tokens().vocabulary(),
        }
    }

    /// Token at the end of documents, if there is one.
    pub(super) fn end(self) -> Option<u32> {
        self.tokens().and_then(TokensTransform::end)
    }

    /// A user's message as the model's conversations have it; none if it knows none.
    pub(super) fn question(self, message: &str) -> Option<Result<ChatQuestion, String>> {
        match self {
            TextTokens::Rows(rows) => rows.question(message),
            TextTokens::Own(..) | TextTokens::Tokenizer(_) => None,
        }
    }

    /// Tokens of a text, or what is wrong with it. `is_whole`: with the tokens that the tokenizer adds around whole texts.
    pub(super) fn encode(self, text: &str, is_whole: bool) -> Result<Vec<u32>, String> {
        if let TextTokens::Own(vocabulary, _) = self {
            let tokens = vocabulary.encode(text);
            return tokens.map_err(|unknown| format!("{unknown}, at byte {}", unknown.position));
        }
        match self.tokens().and_then(TokensTransform::tokenizer) {
            Some(tokenizer) => tokenizer.encode(text, is_whole),
            None => Err("the tokenizer is not known".to_owned()),
        }
    }

    /// The text of tokens; those that are unknown become U+FFFD.
    pub(super) fn decode(self, tokens: &[u32]) -> String {
        if let TextTokens::Own(vocabulary, _) = self {
            return vocabulary.decode(tokens);
        }
        let tokenizer = self.tokens().and_then(TokensTransform::tokenizer);
        let text = tokenizer.and_then(|tokenizer| tokenizer.decode(tokens, false).ok());
        text.unwrap_or_else(|| char::REPLACEMENT_CHARACTER.to_string())
    }
}
