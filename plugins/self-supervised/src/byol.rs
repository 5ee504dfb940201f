//! The `byol` hook: a predictor is to tell from one view what a momentum teacher says of the other; nothing else is compared.
//!
//! Grill et al., "Bootstrap Your Own Latent: A New Approach to Self-Supervised Learning", 2020. The model is a network, a projector and a
//! predictor, in this order; the teacher's output is the projector's.

use sconce_plugin_api::prelude::*;

use crate::learner::Learner;
use crate::losses;
use crate::outputs::check_plan;
use crate::teacher::{MomentumSchedule, Teacher};

/// Where the predictor begins, and how the teacher follows.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Name of the last module before the predictor, whose output has as many columns as the model's.
    projector: String,
    /// Fraction of the teacher that each update keeps, from 0 to 1. Default 0.99.
    #[serde(default = "momentum")]
    #[schemars(range(min = 0.0, max = 1.0))]
    momentum: f64,
    /// How the momentum changes. Default `cosine`.
    #[serde(default = "schedule")]
    schedule: MomentumSchedule,
}

fn momentum() -> f64 {
    0.99
}

fn schedule() -> MomentumSchedule {
    MomentumSchedule::Cosine
}

/// See the [module](self).
pub(crate) struct Byol {
    loss: losses::Byol,
    learner: Learner,
}

#[hook(
    name = "byol",
    about = "Learns without labels: a predictor tells what a momentum teacher says of the other view (BYOL).",
    requires = ["sconce.forward/1", "sconce.given-loss/1", "sconce.vectors/1"],
    ranks = "all",
    publishes = ["output_spread"],
    state = learner.watch,
    reads = [forward, given_loss, outputs, parameters, ranks]
)]
impl Hook for Byol {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        check_plan(setup, 2)?;
        let momentum = (config.momentum, config.schedule);
        let teacher = Teacher::new(momentum, &config.projector, 2, setup)?;
        Ok(Byol {
            loss: losses::Byol::default(),
            learner: Learner::taught_by(teacher),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.learner.teacher.begin(task)
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        self.learner.teacher.look(task)
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        self.learner.give(task, |batch| {
            let theirs = batch.teacher.outputs(batch.task)?;
            Ok(self.loss.compute(batch.outputs, theirs, batch.gradient)?)
        })
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        self.learner.teacher.follow(task)
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.learner.watch.end_epoch(task, None)
    }

    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        _checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.learner.teacher.begin(task)
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn predictions_are_compared_with_the_projector_and_runs_resume()
    -> std::result::Result<(), Failed> {
        let run = || {
            let run = ScriptedRun::new().validation(0).views(2).batch_size(3);
            run.empty_model()
                .parameter("a", &[2], &[1.0, 2.0])
                .module("projector", "linear", 4)
                .module("predictor", "linear", 4)
        };
        let seen = run().drive::<Byol>(json!({"projector": "projector"}))?;
        assert!(seen.losses().iter().all(|loss| loss.value.abs() <= 1.0));
        let wrong = run().drive::<Byol>(json!({"projector": "projectr"}));
        assert!(
            wrong
                .expect_err("no such module")
                .message
                .contains("no module")
        );
        run().check_resume::<Byol>(json!({"projector": "projector", "momentum": 0.5}))
    }
}
