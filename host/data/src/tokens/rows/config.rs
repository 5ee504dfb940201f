//! Rows of text in the manifest: the data kinds `jsonl` and `parquet`, with the same keys.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::split::portion::Portion;
use crate::tokens::context;

/// A JSON object on each line, or the columns of a Parquet file: `text` with `label`, to classify; `prompt` with `completion`, of which only the completion
/// is learnt; or `messages`, of which the assistant's are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JsonlConfig {
    /// Path of the file.
    pub file: PathBuf,
    /// Path of the `tokenizer.json` that makes tokens of the texts, or of its directory. They are made once, and kept in the user's cache directory.
    pub tokenizer: PathBuf,
    /// Number of tokens per sample: shorter rows are filled up, longer ones cut.
    #[serde(default = "context")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub context: usize,
    /// Key of the text to classify. Default: `text`, if the first row has it with a label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Key of its class, a text or a whole number. Default: `label`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Key of the text before the completion, which is not learnt. Default: `prompt`, if the first row has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Key of the text to learn. Default: `completion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<String>,
    /// Key of a conversation: a list of objects with `role` and `content`. Default: `messages`, if the first row has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<String>,
    /// Path of the `tokenizer_config.json` or `.jinja` whose chat template makes text of conversations. Default: what is beside
    /// `tokenizer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<PathBuf>,
    /// Token after a completion, which is learnt too. Default: the tokenizer's, such as `<|endoftext|>` or `</s>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Whether several rows share a sample, in which each sees itself alone, so that little is filled up. Not for classes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub packing: bool,
    /// Validation data: a part of this file or a separate file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val: Option<Portion>,
    /// Test data: a part of this file or a separate file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Portion>,
    /// Seed of the parts for validation and test, apart from the manifest's. Default: that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_seed: Option<u64>,
}
