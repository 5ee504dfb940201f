//! Errors of tokens, of the tokenizers that make them, and of rows of text.

use std::path::PathBuf;

/// Tokens that can't be used, or made.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// A part has fewer tokens than a single sample.
    #[error(
        "the {part} have {found} tokens, a sample of `data.context` {context} needs {}, one more as the last target: lower \
         `data.context`, or take more tokens",
        context.saturating_add(1)
    )]
    Short {
        /// Part of the data, for the message.
        part: &'static str,
        /// Number of tokens in it.
        found: u64,
        /// Number of tokens per sample.
        context: usize,
    },
    /// The size of a file is not a multiple of that of a token.
    #[error(
        "`{}` has {bytes} bytes, not a whole number of tokens of {size}: another `data.dtype`, or a truncated file?",
        file.display()
    )]
    Uneven {
        /// Path of the file.
        file: PathBuf,
        /// Size of the file.
        bytes: u64,
        /// Size of a token.
        size: u64,
    },
    /// A file has a token that the vocabulary doesn't have.
    #[error(
        "`{}` has the token {token} at byte {offset}, and the vocabulary has {vocabulary}, 0 to {}: tokens of another \
         tokenizer, or another `data.dtype`?",
        file.display(), vocabulary.saturating_sub(1)
    )]
    Unknown {
        /// Path of the file.
        file: PathBuf,
        /// Place of the token in the file.
        offset: u64,
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// Nothing says how many tokens there are.
    #[error(
        "the size of the vocabulary is not known: give `data.vocabulary`, a number or the path of a `tokenizer.json`, or the \
         directory that `sconce tokenize` wrote in `data.files`"
    )]
    NoVocabulary,
    /// A size of the vocabulary can't be.
    #[error(
        "`data.vocabulary` {found} must be from 1 to {most}, and at least the {least} of the tokenizer"
    )]
    Vocabulary {
        /// Size in the manifest.
        found: usize,
        /// Size of the tokenizer's.
        least: usize,
        /// Largest size.
        most: usize,
    },
    /// Two sources have tokens of different tokenizers.
    #[error(
        "`{}` has tokens of another tokenizer than `{}`: their numbers mean different texts",
        file.display(), first.display()
    )]
    Mixed {
        /// Path of the first directory.
        first: PathBuf,
        /// Path of the other one.
        file: PathBuf,
    },
    /// Documents can't be kept apart, as their ends are not known.
    #[error(
        "`\"documents\": \"separate\"` needs the token at the end of documents: give it by `data.end`"
    )]
    NoEnd,
    /// There are no files.
    #[error("`{0}` must have at least one file")]
    NoFiles(&'static str),
    /// A part has too many or too few options.
    #[error("`data.{phase}` must have exactly one of `fraction` and `files`")]
    PartForm {
        /// Phase, `val` or `test`.
        phase: &'static str,
    },
    /// The index of a directory of tokens can't be used.
    #[error("`{}` is not an index of tokens as `sconce tokenize` writes it: {problem}", file.display())]
    Index {
        /// Path of the index.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A tokenizer can't be used.
    #[error("`{}` is not a tokenizer that can be used: {problem}", file.display())]
    Tokenizer {
        /// Path of the tokenizer.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A text can't be made tokens of.
    #[error("`{}`, line {line}: {problem}", file.display())]
    Text {
        /// Path of the file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// A directory has other tokens than these.
    #[error(
        "`{}` has tokens already, {difference}: take another directory, or remove this one",
        directory.display()
    )]
    Occupied {
        /// Path of the directory.
        directory: PathBuf,
        /// In what they differ.
        difference: &'static str,
    },
    /// Tokens can't be written.
    #[error("can't write `{}`: {source}", file.display())]
    Write {
        /// Path of the file.
        file: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A vocabulary can't be learnt.
    #[error("a tokenizer can't be trained: {0}")]
    Training(String),
    /// Rows do not fit tokenizer or training.
    #[error("{0}")]
    Rows(String),
}
