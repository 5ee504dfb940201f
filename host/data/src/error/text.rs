//! Errors of texts.

use std::path::PathBuf;

use crate::vocabulary::TextUnit;

/// A text that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The text is shorter than a single sample.
    #[error(
        "the {part} in `{}` has {found} {}, a sample of `data.context` {context} needs {}, one more \
         as the last target: lower `data.context`, or take more text",
        file.display(), unit.plural(), context.saturating_add(1)
    )]
    Short {
        /// Path of the file.
        file: PathBuf,
        /// Part of the data, for the message.
        part: &'static str,
        /// Number of tokens in it.
        found: usize,
        /// Unit of a token.
        unit: TextUnit,
        /// Number of tokens per sample.
        context: usize,
    },
    /// The file is not valid UTF-8, but tokens are characters.
    #[error(
        "`{}` is not UTF-8 at line {line}, column {column}: convert it, or take `\"unit\": \"byte\"`",
        file.display()
    )]
    NotUtf8 {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
    /// A character does not occur in the training part.
    #[error(
        "`{}`, line {line}, column {column}: the character {character:?} is nowhere in the \
         training's text, so no model of its characters can know it: replace it, put it into the \
         training's text, or take `\"unit\": \"byte\"`, which knows every text",
        file.display()
    )]
    Unknown {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// Unknown character.
        character: char,
    },
    /// A key is about tokens that are bytes or characters.
    #[error("`data.{key}` is for texts without `data.tokenizer`: leave one of them out")]
    WithTokenizer {
        /// Key in the manifest.
        key: &'static str,
    },
    /// A part has too many or too few options.
    #[error("`data.{phase}` must have exactly one of `fraction` and `file`")]
    PartForm {
        /// Phase, `val` or `test`.
        phase: &'static str,
    },
}
