//! How a value of a trial is drawn.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::random::Stream;

/// Decimal digits of a number that is drawn: enough to try, and few enough to write down.
const DIGITS: usize = 5;

/// How a value is drawn.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Distribution {
    /// A number between two, each equally likely.
    Uniform([f64; 2]),
    /// A number between two above 0, whose logarithm is uniform.
    Log([f64; 2]),
    /// A whole number from the first to the last, each equally likely.
    Integer([i64; 2]),
    /// One of these values, each equally likely.
    Of(Vec<Value>),
}

impl Distribution {
    /// What is wrong with it.
    pub(super) fn problem(&self) -> Option<String> {
        match self {
            Distribution::Integer([low, high]) => is_empty(low, high),
            Distribution::Log([low, _]) if *low <= 0.0 => {
                Some(format!("it begins at {low}: a logarithm needs more than 0"))
            }
            Distribution::Uniform([low, high]) | Distribution::Log([low, high]) => {
                is_empty(low, high)
            }
            Distribution::Of(values) => values.is_empty().then(|| "it has no values".to_owned()),
        }
    }

    pub(super) fn draw(&self, stream: &mut Stream) -> Value {
        match self {
            Distribution::Uniform([low, high]) => json!(rounded(stream.uniform(*low, *high))),
            Distribution::Log([low, high]) => {
                json!(rounded(stream.uniform(low.ln(), high.ln()).exp()))
            }
            Distribution::Integer([low, high]) => {
                let count = high.abs_diff(*low).saturating_add(1);
                json!(low.saturating_add_unsigned(stream.below(count)))
            }
            Distribution::Of(values) => {
                let at = usize::try_from(stream.below(values.len() as u64));
                let value = at.ok().and_then(|at| values.get(at));
                value.cloned().unwrap_or(Value::Null)
            }
        }
    }
}

fn is_empty<T: PartialOrd + std::fmt::Display>(low: &T, high: &T) -> Option<String> {
    (low >= high).then(|| format!("{low} is not below {high}"))
}

/// A number with few digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}
