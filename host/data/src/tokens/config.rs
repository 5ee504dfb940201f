//! Token files in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::VocabularySource;

/// Files of tokens; the model learns to predict the next token at every position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokensConfig {
    /// Paths of token files, in order, or of directories that `sconce tokenize` wrote: raw numbers as nanoGPT writes them, or
    /// one-dimensional NumPy arrays (`.npy`).
    #[schemars(length(min = 1))]
    pub files: Vec<PathBuf>,
    /// Type of the numbers in raw files. Default: that of the directories, or `"u16"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<TokenType>,
    /// Number of different tokens, or the path of the `tokenizer.json` that made them, or of its directory. Default: the tokenizer in the directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<VocabularySource>,
    /// Number of tokens per sample.
    #[serde(default = "context")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub context: usize,
    /// Token at the end of each document. Default: that of the directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u32>,
    /// Whether a sample's documents are read as one text.
    #[serde(default, skip_serializing_if = "Documents::is_default")]
    pub documents: Documents,
    /// Validation data: the part of the tokens after the training part, or files of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val: Option<TokensPart>,
    /// Test data: the last part of the tokens, or files of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<TokensPart>,
}

/// Type of the numbers in a file, little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TokenType {
    /// Two bytes each: vocabularies of at most 65,536.
    U16,
    /// Four bytes each.
    U32,
}

impl TokenType {
    /// The narrowest type for a vocabulary.
    pub(super) fn of(vocabulary: usize) -> TokenType {
        if vocabulary <= 1 << 16 {
            TokenType::U16
        } else {
            TokenType::U32
        }
    }

    /// Size of a number in bytes.
    pub(super) fn size(self) -> u64 {
        match self {
            TokenType::U16 => 2,
            TokenType::U32 => 4,
        }
    }
}

/// How documents that are in one sample are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Documents {
    /// As one text: a token sees what is before it, whichever document it is of.
    #[default]
    Joined,
    /// Each by itself: a token sees its own document alone, whose positions start at 0.
    Separate,
}

impl Documents {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands over a reference"
    )]
    pub(crate) fn is_default(&self) -> bool {
        *self == Documents::default()
    }
}

/// Source of a phase's tokens: exactly one of `fraction` and `files`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokensPart {
    /// Contiguous fraction of the tokens; above 0 and below 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub fraction: Option<f64>,
    /// Paths of files or directories of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub files: Option<Vec<PathBuf>>,
}

/// Number of tokens per sample, if a manifest doesn't say it.
pub(crate) fn context() -> usize {
    64
}
