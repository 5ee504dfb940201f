//! Metrics in the manifest: a kind, or an object with its options.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use super::{
    Accuracy, Average, BinaryAccuracy, BitsPerByte, ConfusionMatrix, Counting, F1, Mae, Metric,
    MetricError, Perplexity, Precision, R2, Recall, Rmse, TopK,
};
use crate::Targets;

/// A metric: `"accuracy"`, or `{"kind": "top-k", "k": 3}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct MetricConfig {
    /// Metric and its options.
    pub metric: MetricKind,
}

/// A metric with its options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum MetricKind {
    /// For classes: the fraction with the largest logit at the target.
    Accuracy,
    /// For classes: the fraction with the target among the k largest logits, e.g. `top5_accuracy`.
    TopK {
        /// Number of largest logits, from 1 to below the number of classes.
        #[serde(default = "five")]
        #[schemars(range(min = 1))]
        k: usize,
    },
    /// For classes: the fraction of predictions of a class that are correct.
    Precision {
        /// Averaging over the classes.
        #[serde(default)]
        average: Average,
    },
    /// For classes: the fraction of a class's samples that are predicted as that class.
    Recall {
        /// Averaging over the classes.
        #[serde(default)]
        average: Average,
    },
    /// For classes: the harmonic mean of precision and recall.
    F1 {
        /// Averaging over the classes.
        #[serde(default)]
        average: Average,
    },
    /// For at most 32 classes: how often each class was predicted as each, as
    /// `confusion/ACTUAL/PREDICTED`.
    ConfusionMatrix,
    /// For classes: the exponential of the mean cross entropy.
    Perplexity,
    /// For text: the bits that a byte of it costs by the model, which compares vocabularies.
    BitsPerByte,
    /// For numeric targets: the mean absolute error.
    Mae,
    /// For numeric targets: the root mean squared error.
    Rmse,
    /// For numeric targets: the coefficient of determination, averaged over the targets.
    R2,
    /// For targets that are 0 or 1: the fraction of logits on the correct side of 0.
    BinaryAccuracy,
}

fn five() -> usize {
    5
}

/// All kinds; each can be written as a string, without options.
const KINDS: [&str; 12] = [
    "accuracy",
    "top-k",
    "precision",
    "recall",
    "f1",
    "confusion-matrix",
    "perplexity",
    "bits-per-byte",
    "mae",
    "rmse",
    "r2",
    "binary-accuracy",
];

impl From<MetricKind> for MetricConfig {
    fn from(metric: MetricKind) -> Self {
        MetricConfig { metric }
    }
}

impl MetricConfig {
    /// Returns the metrics used by default.
    pub fn default_for(targets: &Targets) -> Vec<MetricConfig> {
        let kinds = match targets {
            Targets::Class(_) => vec![MetricKind::Accuracy],
            Targets::ClassPerPosition(_) | Targets::TokenPerPosition(_) => {
                vec![MetricKind::Accuracy, MetricKind::Perplexity]
            }
            Targets::Numbers(_) => vec![MetricKind::Mae, MetricKind::Rmse],
            Targets::None => Vec::new(),
        };
        kinds.into_iter().map(MetricConfig::from).collect()
    }

    /// Builds the metric for targets, of which those count that `counting` says.
    ///
    /// # Errors
    ///
    /// If metric and targets do not fit each other.
    pub fn build(
        &self,
        targets: &Targets,
        counting: &Counting,
    ) -> Result<Box<dyn Metric>, MetricError> {
        match targets {
            Targets::Numbers(numbers) => self.of_numbers(numbers.len()),
            Targets::None => Err(MetricError::WithoutTargets {
                metric: self.kind(),
            }),
            classes => self.of_classes(classes, counting),
        }
    }

    fn of_classes(
        &self,
        classes: &Targets,
        counting: &Counting,
    ) -> Result<Box<dyn Metric>, MetricError> {
        let (count, ignored) = (classes.outputs(), counting.ignored);
        Ok(match self.metric {
            MetricKind::Accuracy => Box::new(Accuracy::new(ignored)),
            MetricKind::TopK { k } if (1..count).contains(&k) => Box::new(TopK::new(k, ignored)),
            MetricKind::TopK { k } => return Err(MetricError::TopK { k, classes: count }),
            MetricKind::Precision { average } => Box::new(Precision::new(count, average, ignored)),
            MetricKind::Recall { average } => Box::new(Recall::new(count, average, ignored)),
            MetricKind::F1 { average } => Box::new(F1::new(count, average, ignored)),
            MetricKind::ConfusionMatrix if count <= ConfusionMatrix::MOST_CLASSES => {
                Box::new(ConfusionMatrix::new(classes.names().to_vec(), ignored))
            }
            MetricKind::ConfusionMatrix => return Err(MetricError::Classes { found: count }),
            MetricKind::Perplexity => Box::new(Perplexity::new(ignored)),
            MetricKind::BitsPerByte => match &counting.bytes {
                Some(bytes) => Box::new(BitsPerByte::new(bytes.clone(), ignored)),
                None => return Err(MetricError::WithoutBytes),
            },
            MetricKind::Mae | MetricKind::Rmse | MetricKind::R2 | MetricKind::BinaryAccuracy => {
                return Err(MetricError::Targets {
                    metric: self.kind(),
                    wanted: "numbers",
                    found: "classes",
                    instead: "`accuracy`, `top-k`, `precision`, `recall`, `f1`, \
                              `confusion-matrix` or `perplexity`",
                });
            }
        })
    }

    fn of_numbers(&self, count: usize) -> Result<Box<dyn Metric>, MetricError> {
        Ok(match self.metric {
            MetricKind::Mae => Box::new(Mae),
            MetricKind::Rmse => Box::new(Rmse),
            MetricKind::R2 => Box::new(R2::new(count)),
            MetricKind::BinaryAccuracy => Box::new(BinaryAccuracy),
            _ => {
                return Err(MetricError::Targets {
                    metric: self.kind(),
                    wanted: "classes",
                    found: "numbers",
                    instead: "`mae`, `rmse` or `r2`, or `binary-accuracy` where all are 0 or 1",
                });
            }
        })
    }

    /// Returns the kind's name in the manifest.
    fn kind(&self) -> &'static str {
        match self.metric {
            MetricKind::Accuracy => "accuracy",
            MetricKind::TopK { .. } => "top-k",
            MetricKind::Precision { .. } => "precision",
            MetricKind::Recall { .. } => "recall",
            MetricKind::F1 { .. } => "f1",
            MetricKind::ConfusionMatrix => "confusion-matrix",
            MetricKind::Perplexity => "perplexity",
            MetricKind::BitsPerByte => "bits-per-byte",
            MetricKind::Mae => "mae",
            MetricKind::Rmse => "rmse",
            MetricKind::R2 => "r2",
            MetricKind::BinaryAccuracy => "binary-accuracy",
        }
    }
}

impl JsonSchema for MetricConfig {
    fn schema_name() -> Cow<'static, str> {
        "MetricConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut object = generator.subschema_for::<MetricKind>();
        // Also said here, so that a schema error for a string is not reported against the object form.
        object.insert("type".to_owned(), json!("object"));
        let kind = json!({"type": "string", "enum": KINDS, "description": "The metric's kind."});
        let mut schema = Schema::default();
        schema.insert("anyOf".to_owned(), json!([kind, object]));
        schema
    }
}

impl<'de> Deserialize<'de> for MetricConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KindOrObject)
    }
}

struct KindOrObject;

impl<'de> Visitor<'de> for KindOrObject {
    type Value = MetricConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a metric's kind or an object")
    }

    fn visit_str<E: serde::de::Error>(self, kind: &str) -> Result<Self::Value, E> {
        let object = MapDeserializer::new(std::iter::once(("kind", kind)));
        MetricKind::deserialize(object).map(MetricConfig::from)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        MetricKind::deserialize(MapAccessDeserializer::new(map)).map(MetricConfig::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Counting, build_all};

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|index| format!("n{index}")).collect()
    }

    fn configs(json: &str) -> Vec<MetricConfig> {
        serde_json::from_str(json).expect("metrics")
    }

    #[test]
    fn every_kind_may_stand_alone_or_with_options() {
        for kind in KINDS {
            let alone: MetricConfig = serde_json::from_value(json!(kind)).expect(kind);
            let object = serde_json::from_value(json!({"kind": kind})).expect(kind);
            assert_eq!(alone, object);
            assert_eq!(alone.kind(), kind);
            let again = serde_json::to_value(&alone).expect("JSON");
            assert_eq!(alone, serde_json::from_value(again).expect("the same"));
        }
        let some = configs(r#"[{"kind": "top-k", "k": 3}, {"kind": "f1", "average": "micro"}]"#);
        let built =
            build_all(&some, &Targets::Class(names(4)), &Counting::default()).expect("metrics");
        let found: Vec<String> = built.iter().flat_map(|metric| metric.names()).collect();
        assert_eq!(found, ["top3_accuracy", "f1_micro"]);
    }

    #[test]
    fn the_defaults_fit() {
        for (targets, expected) in [
            (Targets::Class(names(2)), vec!["accuracy"]),
            (
                Targets::ClassPerPosition(names(2)),
                vec!["accuracy", "perplexity"],
            ),
            (Targets::Numbers(names(2)), vec!["mae", "rmse"]),
        ] {
            let built = build_all(
                &MetricConfig::default_for(&targets),
                &targets,
                &Counting::default(),
            );
            let built = built.expect("metrics");
            let found: Vec<String> = built.iter().flat_map(|metric| metric.names()).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_does_not_fit_is_reported_with_what_does() {
        let classes = |count| Targets::Class(names(count));
        let numbers = Targets::Numbers(names(1));
        for (targets, json, words) in [
            (
                &numbers,
                r#"["accuracy"]"#,
                "`binary-accuracy` where all are 0 or 1",
            ),
            (&classes(3), r#"["r2"]"#, "use `accuracy`, `top-k`"),
            (&classes(5), r#"["top-k"]"#, "`k` must be from 1 to below 5"),
            (
                &classes(33),
                r#"["confusion-matrix"]"#,
                "of 33 classes that is too many, at most 32",
            ),
            (
                &classes(3),
                r#"["f1", {"kind": "f1"}]"#,
                "two metrics are called `f1`",
            ),
        ] {
            let error = build_all(&configs(json), targets, &Counting::default())
                .err()
                .expect(json);
            assert!(error.to_string().contains(words), "{json}: {error}");
        }
    }
}
