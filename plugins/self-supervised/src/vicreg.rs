//! The `vicreg` hook: both views are to be the same, each column to vary, and no two columns together.
//!
//! Bardes, Ponce and `LeCun`, "`VICReg`: Variance-Invariance-Covariance Regularization for Self-Supervised Learning", 2022.

use sconce_plugin_api::prelude::*;

use crate::collapse::Watch;
use crate::losses::{self, Rows, VicRegWeights};
use crate::outputs::{LossGiver, check_plan};

/// What counts how much.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Weight of the mean squared difference of both views, at least 0. Default 25.
    #[schemars(range(min = 0.0))]
    invariance: f64,
    /// Weight of how far the columns' standard deviations are below 1, at least 0. Default 25.
    #[schemars(range(min = 0.0))]
    variance: f64,
    /// Weight of the squared covariances of different columns, at least 0. Default 1.
    #[schemars(range(min = 0.0))]
    covariance: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            invariance: 25.0,
            variance: 25.0,
            covariance: 1.0,
        }
    }
}

/// See the [module](self).
pub(crate) struct VicReg {
    loss: losses::VicReg,
    giver: LossGiver,
    watch: Watch,
}

#[hook(
    name = "vicreg",
    about = "Learns without labels: views agree, columns vary, and not together (VICReg).",
    requires = ["sconce.given-loss/1"],
    ranks = "all",
    publishes = ["output_spread"],
    state = watch,
    reads = [given_loss, outputs, ranks]
)]
impl Hook for VicReg {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        check_plan(setup, 2)?;
        let Config {
            invariance,
            variance,
            covariance,
        } = config;
        Ok(VicReg {
            loss: losses::VicReg::new(VicRegWeights {
                invariance,
                variance,
                covariance,
            }),
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
