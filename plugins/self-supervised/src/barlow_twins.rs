//! The `barlow-twins` hook: both views are to say the same in each column, and each column something else.
//!
//! Zbontar, Jing, Misra, `LeCun` and Deny, "Barlow Twins: Self-Supervised Learning via Redundancy Reduction", 2021.

use sconce_plugin_api::prelude::*;

use crate::learner::Learner;
use crate::losses;
use crate::outputs::check_plan;

/// What counts how much.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Weight of the correlations of different columns, at least 0. Default 0.005.
    #[schemars(range(min = 0.0))]
    redundancy: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config { redundancy: 0.005 }
    }
}

/// See the [module](self).
pub(crate) struct BarlowTwins {
    loss: losses::BarlowTwins,
    learner: Learner,
}

#[hook(
    name = "barlow-twins",
    about = "Learns without labels: columns agree between views and differ from each other (Barlow Twins).",
    requires = ["sconce.given-loss/1"],
    ranks = "all",
    publishes = ["output_spread"],
    state = learner.watch,
    reads = [given_loss, outputs, ranks]
)]
impl Hook for BarlowTwins {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        check_plan(setup, 2)?;
        Ok(BarlowTwins {
            loss: losses::BarlowTwins::new(config.redundancy),
            learner: Learner::alone(),
        })
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        self.learner.give(task, |batch| {
            Ok(self.loss.compute(batch.outputs, batch.gradient)?)
        })
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.learner.watch.end_epoch(task, None)
    }
}
