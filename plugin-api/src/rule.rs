//! Whether smaller or greater values of a metric are better.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Monitor, Result, bail};

/// Whether smaller or greater values of a metric are better: `less` or `greater` in a configuration.
///
/// ```
/// use sconce_plugin_api::Rule;
///
/// assert_eq!(Rule::of_metric("accuracy"), Some(Rule::Greater));
/// assert!(Rule::Less.is_better(0.25, 0.5));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Smaller values are better.
    Less,
    /// Greater values are better.
    Greater,
}

/// Words in names of metrics whose smaller values are better.
const LESS: [&str; 9] = [
    "loss",
    "error",
    "mse",
    "mae",
    "rmse",
    "perplexity",
    "entropy",
    "nll",
    "brier",
];

/// Words in names of metrics whose greater values are better.
const GREATER: [&str; 11] = [
    "accuracy",
    "acc",
    "precision",
    "recall",
    "f1",
    "auc",
    "score",
    "specificity",
    "r2",
    "iou",
    "map",
];

impl Rule {
    /// Whether `value` is better than `other`; NaN is never better.
    pub fn is_better(self, value: f64, other: f64) -> bool {
        match self {
            Rule::Less => value < other,
            Rule::Greater => value > other,
        }
    }

    /// How much better `value` is than `other`; negative if it is worse.
    pub fn gain(self, value: f64, other: f64) -> f64 {
        match self {
            Rule::Less => other - value,
            Rule::Greater => value - other,
        }
    }

    /// Guesses the rule from the words of a metric's name, for configurations that give none.
    ///
    /// `less` for losses and errors, `greater` for accuracies and other scores, `None` if no word is known.
    pub fn of_metric(name: &str) -> Option<Rule> {
        let name = name.to_ascii_lowercase();
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
        words.find_map(|word| {
            if LESS.contains(&word) {
                return Some(Rule::Less);
            }
            GREATER.contains(&word).then_some(Rule::Greater)
        })
    }

    /// The rule of a configuration, or, where it gives none, that of [`of_metric`](Rule::of_metric).
    ///
    /// # Errors
    ///
    /// If neither is known, for the author of the manifest, who is to say it by the option `rule`.
    pub fn or_of_metric(rule: Option<Rule>, monitor: &Monitor) -> Result<Rule> {
        match rule.or_else(|| Rule::of_metric(monitor.name())) {
            Some(rule) => Ok(rule),
            None => bail!(
                "say by `rule` whether a `less` or a `greater` value of `{monitor}` is better"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_follow_from_the_usual_names_alone() {
        for (name, rule) in [
            ("loss", Some(Rule::Less)),
            ("top5_error", Some(Rule::Less)),
            ("accuracy", Some(Rule::Greater)),
            ("f1_macro", Some(Rule::Greater)),
            ("Recall/cat", Some(Rule::Greater)),
            ("lossless", None),
            ("width", None),
        ] {
            assert_eq!(Rule::of_metric(name), rule, "{name}");
        }
    }

    #[test]
    fn what_is_no_number_is_never_better() {
        for rule in [Rule::Less, Rule::Greater] {
            assert!(!rule.is_better(f64::NAN, 1.0) && !rule.is_better(1.0, 1.0));
        }
        assert!(Rule::Greater.gain(0.5, 0.25) > 0.0 && Rule::Less.gain(0.5, 0.25) < 0.0);
    }
}
