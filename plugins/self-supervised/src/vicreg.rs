//! The `vicreg` hook: both views are to be the same, each column to vary, and no two columns together.
//!
//! Bardes, Ponce and `LeCun`, "`VICReg`: Variance-Invariance-Covariance Regularization for Self-Supervised Learning", 2022.

use sconce_plugin_api::prelude::*;

use crate::learner::Learner;
use crate::losses::{self, VicRegWeights};
use crate::outputs::check_plan;

/// See the [module](self).
pub(crate) struct VicReg {
    loss: losses::VicReg,
    learner: Learner,
}

#[hook(
    name = "vicreg",
    about = "Learns without labels: views agree, columns vary, and not together (VICReg).",
    requires = ["sconce.given-loss/1"],
    ranks = "all",
    publishes = ["output_spread"],
    state = learner.watch,
    reads = [given_loss, outputs, ranks]
)]
impl Hook for VicReg {
    type Config = VicRegWeights;

    fn new(weights: VicRegWeights, setup: &Setup<'_>) -> Result<Self> {
        check_plan(setup, 2)?;
        Ok(VicReg {
            loss: losses::VicReg::new(weights),
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
