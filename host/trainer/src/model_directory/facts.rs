//! What of a manifest predictions and evaluations depend on, beside what was learnt from the data.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kernels::threads;
use crate::loss::LossConfig;
use crate::manifest::Manifest;
use crate::metric::MetricConfig;
use crate::nn::{ModelConfig, Precision};

/// Most threads that a manifest can ask for.
const MOST_THREADS: usize = 1024;

/// A model's architecture, how it computed, and how it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFacts {
    /// The architecture.
    pub(crate) model: ModelConfig,
    /// Precision of products and activations.
    pub(crate) precision: Precision,
    /// Number of samples in a batch of an evaluation: predictions have the same bits only in batches of one size.
    pub(crate) batch_size: usize,
    /// Number of compute threads, on which the bits depend too.
    pub threads: usize,
    /// The loss; none is the default for the targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) loss: Option<LossConfig>,
    /// Metrics; none are the default ones for the targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<Vec<MetricConfig>>,
}

impl ModelFacts {
    /// Those of a run, if its manifest describes the model. `learnt` is what its [task](crate::task::Task::learnt) computed
    /// from the training data in the place of a rule in the manifest.
    pub fn of(manifest: &Manifest, learnt: &Map<String, Value>) -> Option<ModelFacts> {
        let train = &manifest.train;
        let mut loss = manifest.loss.clone();
        if let (Some(LossConfig::CrossEntropy { class_weights, .. }), Some(learnt)) =
            (&mut loss, learnt.get("class_weights"))
        {
            *class_weights = serde_json::from_value(learnt.clone()).ok();
        }
        Some(ModelFacts {
            model: manifest.model.clone()?,
            precision: manifest.precision,
            batch_size: train.eval_batch_size.unwrap_or(train.batch_size).max(1),
            threads: threads::threads().asked,
            loss,
            metrics: manifest.metrics.clone(),
        })
    }

    /// Those of a checkpoint's manifest, if it describes the model.
    ///
    /// # Errors
    ///
    /// If a value is not one of a manifest.
    pub(super) fn of_json(manifest: &Value) -> Result<Option<ModelFacts>, String> {
        #[derive(Deserialize)]
        struct Relevant {
            model: Option<ModelConfig>,
            #[serde(default)]
            precision: Precision,
            threads: Option<usize>,
            loss: Option<LossConfig>,
            metrics: Option<Vec<MetricConfig>>,
            train: Sizes,
        }
        #[derive(Deserialize)]
        struct Sizes {
            batch_size: usize,
            eval_batch_size: Option<usize>,
        }
        if manifest.get("model").is_none_or(Value::is_null) {
            return Ok(None);
        }
        let found = Relevant::deserialize(manifest).map_err(|error| error.to_string())?;
        let Relevant { model, train, .. } = found;
        let facts = model.map(|model| ModelFacts {
            model,
            precision: found.precision,
            batch_size: train.eval_batch_size.unwrap_or(train.batch_size),
            threads: found.threads.unwrap_or_else(|| threads::threads().asked),
            loss: found.loss,
            metrics: found.metrics,
        });
        facts.map(ModelFacts::checked).transpose()
    }

    /// Checks the numbers.
    pub(super) fn checked(self) -> Result<ModelFacts, String> {
        if self.batch_size == 0 {
            return Err("`batch_size` is 0".to_owned());
        }
        if !(1..=MOST_THREADS).contains(&self.threads) {
            return Err(format!(
                "`threads` is {}, not from 1 to {MOST_THREADS}",
                self.threads
            ));
        }
        Ok(self)
    }
}
