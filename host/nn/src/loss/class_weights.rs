//! Weights of classes in a loss: given, or computed from the training data.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LossError;
use super::error::{check_count, out_of_range};
use sconce_base::nearest::nearest;

/// Weights of classes, as in the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ClassWeights {
    /// One weight for each class, 0 or more, in the order of the classes.
    List(#[schemars(length(min = 1))] Vec<f64>),
    /// Weights of classes by name, 0 or more; 1 for each class that is not named.
    Named(#[schemars(extend("minProperties" = 1))] BTreeMap<String, f64>),
    /// Weights computed from the training samples.
    Rule(ClassWeightRule),
}

/// A rule for class weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClassWeightRule {
    /// All classes weigh the same in total: number of training samples / (number of classes · samples of the class).
    Balanced,
}

impl ClassWeights {
    /// Whether they are computed from the training samples.
    pub fn is_learnt(&self) -> bool {
        matches!(self, ClassWeights::Rule(_))
    }

    /// Returns one weight for each class. `counts` are the training samples of each class; `ignored` does not count.
    ///
    /// # Errors
    ///
    /// If there are more or fewer weights than classes, a weight is negative or not finite, all are 0, a name is not a
    /// class, or weights by a rule lack a class's samples.
    pub(super) fn resolve(
        &self,
        classes: &[String],
        counts: Option<&[u64]>,
        ignored: Option<u32>,
    ) -> Result<Vec<f64>, LossError> {
        let weights = match self {
            ClassWeights::List(weights) => {
                check_count("class_weights", "class", classes.len(), weights.len())?;
                check(weights.iter().enumerate(), |index| format!("[{index}]"))?;
                weights.clone()
            }
            ClassWeights::Named(named) => {
                check(named.iter(), |name| format!(".{name}"))?;
                by_name(named, classes)?
            }
            ClassWeights::Rule(ClassWeightRule::Balanced) => {
                balanced(classes, counts.unwrap_or_default(), ignored)?
            }
        };
        if weights.iter().all(|weight| *weight <= 0.0) {
            return Err(LossError::NoWeight);
        }
        Ok(weights)
    }
}

/// Checks that all weights are finite and not negative.
fn check<'a, K>(
    mut weights: impl Iterator<Item = (K, &'a f64)>,
    place: impl Fn(K) -> String,
) -> Result<(), LossError> {
    match weights.find(|(_, weight)| !(weight.is_finite() && **weight >= 0.0)) {
        Some((key, weight)) => {
            let name = format!("class_weights{}", place(key));
            Err(out_of_range(name, "0 or more", *weight))
        }
        None => Ok(()),
    }
}

fn by_name(named: &BTreeMap<String, f64>, classes: &[String]) -> Result<Vec<f64>, LossError> {
    if let Some(unknown) = named.keys().find(|name| !classes.contains(name)) {
        let near = nearest(unknown, classes.iter().map(String::as_str));
        return Err(LossError::UnknownClass {
            name: unknown.clone(),
            nearest: near.map(str::to_owned),
            known: classes.iter().take(8).cloned().collect(),
        });
    }
    let weight = |class: &String| named.get(class).copied().unwrap_or(1.0);
    Ok(classes.iter().map(weight).collect())
}

/// scikit-learn's `compute_class_weight("balanced", …)` over the classes that count; an ignored class keeps the weight 1.
fn balanced(
    classes: &[String],
    counts: &[u64],
    ignored: Option<u32>,
) -> Result<Vec<f64>, LossError> {
    let counts_of: Vec<Option<u64>> = (0..classes.len())
        .map(|class| {
            let is_ignored = ignored.is_some_and(|ignored| ignored as usize == class);
            (!is_ignored).then(|| counts.get(class).copied().unwrap_or_default())
        })
        .collect();
    if let Some(absent) = counts_of.iter().position(|count| *count == Some(0)) {
        let class = classes.get(absent).cloned().unwrap_or_default();
        return Err(LossError::ClassWithoutSamples(class));
    }
    let counted = counts_of.iter().flatten();
    let total: u64 = counted.clone().sum();
    let kinds = counted.count();
    let weight = |count: &Option<u64>| {
        count.map_or(1.0, |count| total as f64 / (kinds as f64 * count as f64))
    };
    Ok(counts_of.iter().map(weight).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn weights(json: &str) -> ClassWeights {
        serde_json::from_str(json).expect("weights")
    }

    #[test]
    fn balanced_weights_are_those_of_scikit_learn() {
        // compute_class_weight("balanced", classes=[0, 1, 2], y=[0] * 146 + [1] * 68 + [2] * 119), scikit-learn 1.9.1.
        let expected = [
            0.760_273_972_602_739_8,
            1.632_352_941_176_470_5,
            0.932_773_109_243_697_5,
        ];
        let classes = names(&["a", "b", "c"]);
        let found = weights("\"balanced\"").resolve(&classes, Some(&[146, 68, 119]), None);
        for (found, expected) in found.expect("weights").iter().zip(expected) {
            assert!((found - expected).abs() < 1e-15, "{found} {expected}");
        }
        let ignoring = weights("\"balanced\"").resolve(&classes, Some(&[30, 7, 10]), Some(1));
        assert_eq!(ignoring, Ok(vec![40.0 / 60.0, 1.0, 2.0]));
        let absent = weights("\"balanced\"").resolve(&classes, Some(&[30, 0, 10]), None);
        assert_eq!(absent, Err(LossError::ClassWithoutSamples("b".to_owned())));
    }

    #[test]
    fn weights_by_name_are_in_the_order_of_classes() {
        let classes = names(&["Adelie", "Chinstrap", "Gentoo"]);
        let named = weights(r#"{"Gentoo": 0.5, "Adelie": 2}"#);
        assert_eq!(named.resolve(&classes, None, None), Ok(vec![2.0, 1.0, 0.5]));
        for (json, words) in [
            (
                r#"{"Gento": 1}"#,
                "no class is called `Gento`; did you mean `Gentoo`? The classes are `Adelie`, `Chinstrap`, `Gentoo`",
            ),
            (
                r#"{"Gentoo": -1}"#,
                "`class_weights.Gentoo` must be 0 or more, found -1",
            ),
            (
                "[1, 2]",
                "must have 3 elements, one for each class; found 2",
            ),
            (r#"{"Adelie": 0, "Chinstrap": 0, "Gentoo": 0}"#, "all 0"),
        ] {
            let error = weights(json).resolve(&classes, None, None).expect_err(json);
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
