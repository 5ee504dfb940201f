//! Sentences of a grammar in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tokens;

/// Sentences of a small grammar, drawn from the seed: verbs agree with their subjects across nested
/// brackets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GrammarConfig {
    /// Number of training samples.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub train: usize,
    /// Number of validation samples; 0 for no validation.
    #[schemars(range(max = 10_000_000))]
    pub val: usize,
    /// Number of test samples; 0 for no test.
    #[schemars(range(max = 10_000_000))]
    pub test: usize,
    /// Number of characters per sample.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub context: usize,
}

impl Default for GrammarConfig {
    fn default() -> Self {
        GrammarConfig {
            train: 2000,
            val: 200,
            test: 200,
            context: tokens::context(),
        }
    }
}
