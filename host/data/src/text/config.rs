//! Text in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::MemoryUse;
use crate::tokens::context;
use crate::vocabulary::TextUnit;

/// A text file; the model learns to predict the next token at every position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextConfig {
    /// Path of the text file.
    pub file: PathBuf,
    /// Path of the `tokenizer.json` that makes the text's tokens. They are made once, and kept in the user's cache directory;
    /// `sconce tokenize` makes them for large texts. Default: none, tokens are of `unit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<PathBuf>,
    /// Unit of a token.
    #[serde(default)]
    pub unit: TextUnit,
    /// Number of tokens per sample.
    #[serde(default = "context")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub context: usize,
    /// Number of tokens from the start of one training sample to the next. Default: `context`, so that
    /// each token is in one sample. Validation and test always use the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub stride: Option<usize>,
    /// Whether the text is read before training or when a batch needs a part of it. Text in characters
    /// is checked before training in any case.
    #[serde(default, skip_serializing_if = "MemoryUse::is_default")]
    pub memory: MemoryUse,
    /// Validation data: the part of the text after the training part, or a separate file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val: Option<TextPart>,
    /// Test data: the last part of the text, or a separate file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<TextPart>,
}

/// Source of a phase's text: exactly one of `fraction` and `file`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TextPart {
    /// Contiguous fraction of the text; above 0 and below 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub fraction: Option<f64>,
    /// Path of a separate file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}
