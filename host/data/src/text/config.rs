//! Text in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A text file; the model learns what comes next at every position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextConfig {
    /// The text.
    pub file: PathBuf,
    /// What a token is.
    #[serde(default)]
    pub unit: TextUnit,
    /// How many tokens a sample has.
    #[serde(default = "context")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub context: usize,
    /// How many tokens lie between the beginnings of two training samples. Default: `context`, so
    /// that each token is in one of them. Validation and test always do with that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub stride: Option<usize>,
    /// What is validated on: the part of the text behind the training's, or a file of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val: Option<TextPart>,
    /// What is tested on: the last part of the text, or a file of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<TextPart>,
}

/// What a token of a text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TextUnit {
    /// A byte: a vocabulary of 256 for every text there is.
    #[default]
    Byte,
    /// A character of UTF-8: the vocabulary is the set of those in the training's part.
    Char,
}

impl TextUnit {
    /// Several of them, in words.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            TextUnit::Byte => "bytes",
            TextUnit::Char => "characters",
        }
    }
}

/// Where the text of a phase comes from: exactly one of `fraction` and `file`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TextPart {
    /// This share of the text, in one piece; above 0 and below 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub fraction: Option<f64>,
    /// A file of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

pub(crate) fn context() -> usize {
    64
}
