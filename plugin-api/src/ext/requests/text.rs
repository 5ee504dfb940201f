//! Text that the run's model writes for a hook: what is asked for, and what comes of it.

use serde::{Deserialize, Serialize};

/// Name under which the host publishes the texts of a [`Generate`](crate::ext::Request::Generate) request, until the end of the batch.
pub const GENERATED_TEXT: &str = "generated_text";

/// Prompts that the model writes on from, and how it chooses tokens: the options of `sconce generate`.
///
/// ```
/// let request = sconce_plugin_api::TextRequest {
///     prompts: vec!["ROMEO:".to_owned()],
///     temperature: 0.8,
///     ..Default::default()
/// };
/// assert_eq!(request.tokens, 200);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextRequest {
    /// Texts to write on from, none of them empty.
    pub prompts: Vec<String>,
    /// Most tokens after each prompt. With 0 the prompts and options are checked, and nothing is written.
    pub tokens: u64,
    /// Divisor of the scores; at 0 the token with the highest score is taken.
    pub temperature: f64,
    /// Keeps the tokens whose scores are at least the k-th highest; 0: all.
    pub top_k: u64,
    /// Keeps the fewest likeliest tokens whose probabilities add up to this; 1: all.
    pub top_p: f64,
    /// Drops the tokens that are less likely than this times the likeliest; 0: none.
    pub min_p: f64,
    /// Divides positive scores of tokens that have occurred, and multiplies negative ones; 1: no penalty.
    pub repetition_penalty: f64,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Texts at which to end, which are not part of what is written.
    pub stop: Vec<String>,
}

impl Default for TextRequest {
    fn default() -> Self {
        TextRequest {
            prompts: Vec::new(),
            tokens: 200,
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: 0,
            stop: Vec::new(),
        }
    }
}

/// A text that the model has written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenText {
    /// What follows the prompt.
    pub text: String,
    /// Number of its tokens.
    pub tokens: u64,
    /// Why it has ended: `length` or `stop`.
    pub end: String,
}
