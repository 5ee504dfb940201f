//! What can be wrong with a text.

use std::path::PathBuf;

use super::TextUnit;

/// Why a text can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// Less text than a single sample needs.
    #[error(
        "the {part} in `{}` has {found} {}, a sample of `data.context` {context} needs {}, one more \
         as the last target: lower `data.context`, or take more text",
        file.display(), unit.plural(), context.saturating_add(1)
    )]
    Short {
        /// The file.
        file: PathBuf,
        /// Which part of the data it is.
        part: &'static str,
        /// How many tokens it has.
        found: usize,
        /// What a token is.
        unit: TextUnit,
        /// How many a sample has.
        context: usize,
    },
    /// A file of characters that is no UTF-8.
    #[error(
        "`{}` is no UTF-8 at line {line}, column {column}: convert it, or take `\"unit\": \"byte\"`",
        file.display()
    )]
    NotUtf8 {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The character in it, from 1.
        column: usize,
    },
    /// A character that the training's part does not have.
    #[error(
        "`{}`, line {line}, column {column}: the character {character:?} is nowhere in the \
         training's text, so no model of its characters can know it: replace it, put it into the \
         training's text, or take `\"unit\": \"byte\"`, which knows every text",
        file.display()
    )]
    Unknown {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The character's place in it, from 1.
        column: usize,
        /// The character.
        character: char,
    },
    /// A part that says too much or too little.
    #[error("`data.{phase}` must have exactly one of `fraction` and `file`")]
    PartForm {
        /// `val` or `test`.
        phase: &'static str,
    },
}
