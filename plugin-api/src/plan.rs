//! What the run will be, as far as that is known before it begins.

use serde::{Deserialize, Serialize};

use crate::{ModuleFacts, Phase};

/// What the run will be, as far as that is known before it begins: what a hook can check its configuration
/// against at its creation, and so in `sconce check` ([`Setup::plan`](crate::Setup::plan)).
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
    /// Training epochs.
    pub epochs: u64,
    /// Batches per update, unless a hook changes that.
    pub accumulate: u64,
    /// The phases that have data.
    pub phases: Vec<PhasePlan>,
    /// The model's parameters and buffers, in its order.
    pub parameters: Vec<ParameterPlan>,
    /// The model's modules, in its order.
    pub modules: Vec<ModuleFacts>,
    /// The names of the optimizer's parameter groups: `default` first.
    pub groups: Vec<String>,
    /// The classes' names, in the order of their numbers; empty where there are no classes.
    pub classes: Vec<String>,
    /// The metrics of the task (`loss` first) and those that the run's hooks say they publish, patterns as
    /// `norm/*` included.
    pub metrics: Vec<String>,
}

/// A phase that has data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PhasePlan {
    /// The phase's name, as [`Phase::name`] gives it.
    pub phase: String,
    /// Samples in one pass.
    pub samples: u64,
    /// Batches in one pass.
    pub batches: u64,
    /// How often the host passes over the data of its own accord, without what hooks ask for.
    pub passes: u64,
}

/// A parameter or buffer of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ParameterPlan {
    /// Its name, as `fc1.weight`.
    pub name: String,
    /// Whether it is a buffer: part of the model's state, but not learned from gradients.
    pub is_buffer: bool,
}

impl Plan {
    /// The plan of a phase, where it has data.
    pub fn phase(&self, phase: Phase) -> Option<&PhasePlan> {
        self.phases.iter().find(|plan| plan.phase == phase.name())
    }

    /// Batches of a training epoch.
    pub fn batches(&self) -> u64 {
        self.phase(Phase::Train).map_or(0, |plan| plan.batches)
    }

    /// Training iterations of the whole run.
    pub fn iterations(&self) -> u64 {
        self.epochs.saturating_mul(self.batches())
    }

    /// Updates of the parameters in the whole run; what is left over at an epoch's end is one too.
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
