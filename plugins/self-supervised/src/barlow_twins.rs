//! The `barlow-twins` hook: both views are to say the same in each column, and each column something else.
//!
//! Zbontar, Jing, Misra, `LeCun` and Deny, "Barlow Twins: Self-Supervised Learning via Redundancy Reduction", 2021.

use sconce_plugin_api::prelude::*;

use crate::collapse::Watch;
use crate::losses::{self, Rows};
use crate::outputs::{LossGiver, check_plan};

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
    giver: LossGiver,
    watch: Watch,
}

#[hook(
    name = "barlow-twins",
    about = "Learns without labels: columns agree between views and differ from each other (Barlow Twins).",
    requires = ["sconce.given-loss/1"],
    ranks = "all",
    publishes = ["output_spread"],
    state = watch,
    reads = [given_loss, outputs, ranks]
)]
impl Hook for BarlowTwins {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        check_plan(setup, 2)?;
        Ok(BarlowTwins {
            loss: losses::BarlowTwins::new(config.redundancy),
            giver: LossGiver::default(),
            watch: Watch::default(),
        })
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        let loss = &mut self.loss;
        let compute = |_: &TaskView<'_>, outputs: Rows<'_>, _, gradient: &mut [f32]| {
            Ok(loss.compute(outputs, gradient)?)
        };
        self.giver.give(task, &mut self.watch, compute)
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.watch.end_epoch(task, |_| None)
    }
}
