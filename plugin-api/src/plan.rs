//! The plan of a run, known before the run begins.

use serde::{Deserialize, Serialize};

use crate::{ModuleFacts, Phase};

/// What is known about a run before it begins, from [`Setup::plan`](crate::Setup::plan).
///
/// A hook can check its configuration against it at its creation, and so in `sconce check`.
///
/// ```
/// use sconce_plugin_api::{Result, Setup, bail};
///
/// fn check(after_updates: u64, setup: &Setup<'_>) -> Result<()> {
///     if let Some(plan) = setup.plan()?
///         && after_updates > plan.updates()
///     {
///         bail!("`after_updates` is {after_updates}, the run has {} updates", plan.updates());
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Plan {
    /// Number of training epochs.
    pub epochs: u64,
    /// Batches per update, unless a hook changes the number.
    pub accumulate: u64,
    /// Phases that have data.
    pub phases: Vec<PhasePlan>,
    /// Parameters and buffers, in the model's order.
    pub parameters: Vec<ParameterPlan>,
    /// Modules, in the model's order.
    pub modules: Vec<ModuleFacts>,
    /// Names of the optimizer's parameter groups, `default` first.
    pub groups: Vec<String>,
    /// Class names in the order of their indices; empty if the task has no classes.
    pub classes: Vec<String>,
    /// Shape of a sample's inputs; empty for a single number, and where the task has no training data.
    pub sample_shape: Vec<usize>,
    /// Metrics of the task (`loss` first) and those that the run's hooks declare.
    ///
    /// Declarations may be patterns such as `norm/*`.
    pub metrics: Vec<String>,
    /// Views of each training sample in a batch, one after the other; 0 if it isn't known.
    pub views: u64,
    /// Why the model can't write text; empty if it can ([`At::generate`](crate::At::generate)), and if it isn't known.
    pub why_no_text: String,
}

/// A phase that has data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PhasePlan {
    /// Name of the phase, as in [`Phase::name`].
    pub phase: String,
    /// Number of samples in one pass.
    pub samples: u64,
    /// Number of batches in one pass.
    pub batches: u64,
    /// Number of passes over the data scheduled by the host, not counting those that hooks request.
    pub passes: u64,
}

/// A parameter or buffer of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ParameterPlan {
    /// Name, such as `fc1.weight`.
    pub name: String,
    /// Whether it is a buffer: part of the model's state, but not learned from gradients.
    pub is_buffer: bool,
}

impl Plan {
    /// The plan of a phase; `None` if it has no data.
    pub fn phase(&self, phase: Phase) -> Option<&PhasePlan> {
        self.phases.iter().find(|plan| plan.phase == phase.name())
    }

    /// Number of batches in a training epoch.
    pub fn batches(&self) -> u64 {
        self.phase(Phase::Train).map_or(0, |plan| plan.batches)
    }

    /// Number of training iterations in the whole run.
    pub fn iterations(&self) -> u64 {
        self.epochs.saturating_mul(self.batches())
    }

    /// Number of optimizer steps in the whole run; an incomplete accumulation at an epoch's end counts as
    /// one.
    pub fn updates(&self) -> u64 {
        let each = self.batches().div_ceil(self.accumulate.max(1));
        self.epochs.saturating_mul(each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_of_another_version_is_read_and_counts_are_those_of_the_loop() {
        let text = r#"{"epochs": 3, "accumulate": 4, "tea": 5,
            "phases": [{"phase": "train", "samples": 90, "batches": 9, "cups": 1}]}"#;
        let plan: Plan = serde_json::from_str(text).expect("what is new is passed over");
        assert_eq!((plan.iterations(), plan.updates()), (27, 9));
        assert!(plan.phase(Phase::Val).is_none() && plan.parameters.is_empty());
        assert_eq!(Plan::default().updates(), 0);
    }
}
