//! What a loop says of itself before it begins.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use sconce_plugin_api::Phase;

/// What is known of a loop before it begins: what hooks plan by, such as a schedule by the number of updates.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoopPlan {
    /// Number of training epochs.
    pub epochs: u64,
    /// Batches of a training epoch, if known.
    pub batches: Option<u64>,
    /// Samples of a training epoch, if known.
    pub samples: Option<u64>,
    /// Batches per update; at least 1.
    pub accumulate: u64,
    /// Batches of a validation, 0 if that is not known; none if the loop validates nothing.
    pub validation_batches: Option<u64>,
    /// The optimizer's groups with their learning rates and weight decays, the default group first.
    pub groups: Vec<GroupPlan>,
    /// Whether the optimizer has a momentum that can be set.
    pub has_momentum: bool,
    /// Names of the classes, in the order of their indices; may be empty.
    pub classes: Vec<String>,
    /// Shape of a sample's inputs; may be empty.
    pub sample_shape: Vec<usize>,
    /// Names of the metrics that the loop sets besides `loss`.
    pub metrics: Vec<String>,
    /// The model's modules at which the loop calls hooks during the forward pass, in an order that stays; empty if it calls none.
    pub modules: Vec<ModulePlan>,
}

/// A module of the model.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ModulePlan {
    /// Its name, such as `fc1`.
    pub name: String,
    /// Kind of layer, such as `linear`.
    pub kind: String,
}

/// A group of parameters with a learning rate of its own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupPlan {
    /// Its name; the first one's is `default`.
    pub name: String,
    /// Its learning rate, finite and not negative.
    pub learning_rate: f64,
    /// Its weight decay.
    #[serde(default)]
    pub weight_decay: f64,
}

impl Default for LoopPlan {
    fn default() -> LoopPlan {
        LoopPlan::new(1, 0.0)
    }
}

impl LoopPlan {
    /// A loop of this many epochs whose optimizer has one learning rate.
    pub fn new(epochs: u64, learning_rate: f64) -> LoopPlan {
        LoopPlan {
            epochs,
            batches: None,
            samples: None,
            accumulate: 1,
            validation_batches: None,
            groups: vec![GroupPlan {
                name: "default".to_owned(),
                learning_rate,
                weight_decay: 0.0,
            }],
            has_momentum: false,
            classes: Vec::new(),
            sample_shape: Vec::new(),
            metrics: Vec::new(),
            modules: Vec::new(),
        }
    }

    /// With this many batches in a training epoch.
    #[must_use]
    pub fn batches(mut self, batches: u64) -> LoopPlan {
        self.batches = Some(batches);
        self
    }

    /// With this many batches in a validation.
    #[must_use]
    pub fn validation_batches(mut self, batches: u64) -> LoopPlan {
        self.validation_batches = Some(batches);
        self
    }

    /// With the gradients of this many batches in an update.
    #[must_use]
    pub fn accumulate(mut self, batches: u64) -> LoopPlan {
        self.accumulate = batches.max(1);
        self
    }

    /// With these metrics besides the loss.
    #[must_use]
    pub fn metrics(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> LoopPlan {
        self.metrics = names.into_iter().map(Into::into).collect();
        self
    }

    /// The plan as hooks are shown it (`sconce.plan/1`); `parameters` are names and whether each is a buffer.
    pub(super) fn to_json(&self, parameters: &[(String, bool)], published: &[String]) -> String {
        let parameters = parameters.iter();
        let parameters: Vec<Value> = parameters
            .map(|(name, is_buffer)| json!({"name": name, "is_buffer": is_buffer}))
            .collect();
        let groups: Vec<&str> = self
            .groups
            .iter()
            .map(|group| group.name.as_str())
            .collect();
        let mut phases = vec![self.phase(Phase::Train, self.batches, self.epochs)];
        if let Some(batches) = self.validation_batches {
            phases.push(self.phase(Phase::Val, Some(batches), self.epochs));
        }
        let loss = ["loss".to_owned()];
        let metrics = loss.iter().chain(&self.metrics).chain(published);
        json!({
            "epochs": self.epochs,
            "accumulate": self.accumulate,
            "phases": phases,
            "parameters": parameters,
            "modules": self.modules,
            "groups": groups,
            "classes": self.classes,
            "sample_shape": self.sample_shape,
            "metrics": metrics.collect::<Vec<_>>(),
        })
        .to_string()
    }

    fn phase(&self, phase: Phase, batches: Option<u64>, passes: u64) -> Value {
        let samples = self.samples.filter(|_| phase == Phase::Train);
        json!({
            "phase": phase.name(),
            "samples": samples.unwrap_or(0),
            "batches": batches.unwrap_or(0),
            "passes": passes,
        })
    }
}
