//! Losses in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{check_count, out_of_range};
use super::{BinaryCrossEntropy, ClassWeights, CrossEntropy, Loss, LossError};
use crate::Targets;

/// Loss to minimise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LossConfig {
    /// Cross entropy between a logit per class and the target class.
    CrossEntropy {
        /// Fraction of the target distribution spread over all classes, from 0 to below 1.
        #[serde(default)]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        label_smoothing: f64,
        /// Weights of the classes: a list in the order of the classes, an object by their names, or `"balanced"`.
        /// Default: all equal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class_weights: Option<ClassWeights>,
        /// Target class to ignore: samples or positions with it do not count in loss or metrics. It does
        /// not have to be one of the classes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ignore_index: Option<u32>,
    },
    /// Binary cross entropy of a logit per target that is 0 (no) or 1 (yes), or a probability.
    BinaryCrossEntropy {
        /// Weight of yes against no, above 0, for each target. Default: 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(length(min = 1))]
        pos_weight: Option<Vec<f64>>,
    },
    /// Mean squared error.
    Mse,
    /// Mean absolute error.
    L1,
    /// Huber loss: quadratic for small errors, linear for large ones.
    Huber {
        /// Absolute error above which the loss is linear, above 0.
        #[serde(default = "one")]
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        delta: f64,
    },
    /// What a hook gives for each batch, with its gradient, such as those of self-supervised learning. For any targets.
    Given,
}

fn one() -> f64 {
    1.0
}

impl LossConfig {
    /// Returns cross entropy for classes, mean squared error for numeric targets, what a hook gives for none.
    pub fn default_for(targets: &Targets) -> LossConfig {
        match targets {
            Targets::Class(_) | Targets::ClassPerPosition(_) | Targets::TokenPerPosition(_) => {
                LossConfig::CrossEntropy {
                    label_smoothing: 0.0,
                    class_weights: None,
                    ignore_index: None,
                }
            }
            Targets::Numbers(_) => LossConfig::Mse,
            Targets::None => LossConfig::Given,
        }
    }

    /// Returns the target to ignore, which metrics must ignore too: the manifest's, or that of the data.
    pub fn ignore_index(&self, targets: &Targets) -> Option<u32> {
        match self {
            LossConfig::CrossEntropy { ignore_index, .. } => ignore_index.or(targets.ignored()),
            _ => None,
        }
    }

    /// Whether hooks compute it, from outputs of any shape.
    pub fn is_given(&self) -> bool {
        matches!(self, LossConfig::Given)
    }

    /// Whether the loss is built from the number of training samples of each class.
    pub fn needs_class_counts(&self) -> bool {
        let LossConfig::CrossEntropy { class_weights, .. } = self else {
            return false;
        };
        class_weights.as_ref().is_some_and(ClassWeights::is_learnt)
    }

    /// Builds the loss for targets. `class_counts` are the training samples of each class, if the loss
    /// [needs](LossConfig::needs_class_counts) them.
    ///
    /// # Errors
    ///
    /// If loss and targets do not fit each other, or a value is out of range.
    pub fn build(
        &self,
        targets: &Targets,
        class_counts: Option<&[u64]>,
    ) -> Result<Loss, LossError> {
        self.check_kind(targets)?;
        let count = targets.outputs();
        match self {
            LossConfig::CrossEntropy {
                label_smoothing,
                class_weights,
                ignore_index,
            } => {
                if !(0.0..1.0).contains(label_smoothing) {
                    let name = "label_smoothing".to_owned();
                    return Err(out_of_range(name, "from 0 to below 1", *label_smoothing));
                }
                if let (Some(_), Some(_)) = (ignore_index, targets.ignored()) {
                    return Err(LossError::IgnoredByData);
                }
                let ignore_index = ignore_index.or(targets.ignored());
                let classes = targets.names();
                let class_weights = class_weights
                    .as_ref()
                    .map(|weights| weights.resolve(classes, class_counts, ignore_index));
                match ignore_index {
                    Some(index) if (index as usize) < count && count <= 2 => {
                        return Err(LossError::Ignored(index));
                    }
                    _ => {}
                }
                Ok(Loss::CrossEntropy(CrossEntropy {
                    label_smoothing: *label_smoothing,
                    class_weights: class_weights.transpose()?,
                    ignore_index,
                }))
            }
            LossConfig::BinaryCrossEntropy { pos_weight } => {
                if let Some(weights) = pos_weight {
                    check_pos_weight(weights, count)?;
                }
                let loss = BinaryCrossEntropy::new(pos_weight.clone());
                Ok(Loss::BinaryCrossEntropy(loss))
            }
            LossConfig::Given => Ok(Loss::Given),
            LossConfig::Mse => Ok(Loss::Mse),
            LossConfig::L1 => Ok(Loss::L1),
            LossConfig::Huber { delta } if delta.is_finite() && *delta > 0.0 => {
                Ok(Loss::Huber { delta: *delta })
            }
            LossConfig::Huber { delta } => Err(out_of_range("delta".to_owned(), "above 0", *delta)),
        }
    }

    fn check_kind(&self, targets: &Targets) -> Result<(), LossError> {
        let (loss, wants_classes) = match self {
            LossConfig::CrossEntropy { .. } => ("cross-entropy", true),
            LossConfig::BinaryCrossEntropy { .. } => ("binary-cross-entropy", false),
            LossConfig::Mse => ("mse", false),
            LossConfig::L1 => ("l1", false),
            LossConfig::Huber { .. } => ("huber", false),
            LossConfig::Given => return Ok(()),
        };
        if let Targets::None = targets {
            return Err(LossError::WithoutTargets { loss });
        }
        let are_classes = !matches!(targets, Targets::Numbers(_));
        match (wants_classes, are_classes) {
            (true, false) => Err(LossError::Targets {
                loss,
                wanted: "classes",
                found: "numbers",
                instead: "`mse`, `l1` or `huber`, or `binary-cross-entropy` where all are 0 or 1; in a table, \
                          `\"target_kind\": \"classes\"` makes classes of them",
            }),
            (false, true) => Err(LossError::Targets {
                loss,
                wanted: "numbers",
                found: "classes",
                instead: "`cross-entropy`, for two classes too",
            }),
            _ => Ok(()),
        }
    }
}

fn check_pos_weight(weights: &[f64], numbers: usize) -> Result<(), LossError> {
    let name = "pos_weight";
    check_count(name, "number", numbers, weights.len())?;
    let is_wrong = |weight: &f64| !(weight.is_finite() && *weight > 0.0);
    if let Some(place) = weights.iter().position(is_wrong) {
        let name = format!("{name}[{place}]");
        return Err(out_of_range(name, "above 0", weights[place]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|index| format!("n{index}")).collect()
    }

    fn config(json: &str) -> LossConfig {
        serde_json::from_str(json).expect("a config")
    }

    #[test]
    fn each_kind_of_targets_has_its_loss() {
        for targets in [
            Targets::Class(names(2)),
            Targets::ClassPerPosition(names(2)),
            Targets::Numbers(names(2)),
        ] {
            let config = LossConfig::default_for(&targets);
            config.build(&targets, None).expect("it fits");
            let json = serde_json::to_string(&config).expect("JSON");
            assert_eq!(config, self::config(&json));
        }
        let numbers = Targets::Numbers(names(1));
        assert_eq!(LossConfig::default_for(&numbers), LossConfig::Mse);
        assert_eq!(
            config(r#"{"kind": "huber"}"#).build(&numbers, None),
            Ok(Loss::Huber { delta: 1.0 })
        );
    }

    #[test]
    fn what_does_not_fit_is_reported_with_what_does() {
        let classes = Targets::Class(names(3));
        let two = Targets::Class(names(2));
        let numbers = Targets::Numbers(names(2));
        for (targets, json, words) in [
            (
                &numbers,
                r#"{"kind": "cross-entropy"}"#,
                "use `mse`, `l1` or `huber`",
            ),
            (&classes, r#"{"kind": "mse"}"#, "use `cross-entropy`"),
            (
                &two,
                r#"{"kind": "binary-cross-entropy"}"#,
                "for two classes too",
            ),
            (
                &classes,
                r#"{"kind": "cross-entropy", "class_weights": [1, 2]}"#,
                "`class_weights` must have 3 elements, one for each class; found 2",
            ),
            (
                &classes,
                r#"{"kind": "cross-entropy", "class_weights": [1, -2, 1]}"#,
                "`class_weights[1]` must be 0 or more, found -2",
            ),
            (
                &classes,
                r#"{"kind": "cross-entropy", "class_weights": [0, 0, 0]}"#,
                "all 0",
            ),
            (
                &two,
                r#"{"kind": "cross-entropy", "ignore_index": 1}"#,
                "leaves fewer than two classes",
            ),
            (
                &classes,
                r#"{"kind": "cross-entropy", "label_smoothing": 1}"#,
                "`label_smoothing` must be from 0 to below 1, found 1",
            ),
            (
                &numbers,
                r#"{"kind": "binary-cross-entropy", "pos_weight": [1, 0]}"#,
                "`pos_weight[1]` must be above 0, found 0",
            ),
            (
                &numbers,
                r#"{"kind": "huber", "delta": 0}"#,
                "`delta` must be above 0",
            ),
        ] {
            let error = config(json)
                .build(targets, None)
                .expect_err(json)
                .to_string();
            assert!(error.contains(words), "{json}: {error}");
        }
        let padding = config(r#"{"kind": "cross-entropy", "ignore_index": 255}"#);
        padding.build(&two, None).expect("no class is lost");
        assert_eq!(padding.ignore_index(&two), Some(255));
    }
}
