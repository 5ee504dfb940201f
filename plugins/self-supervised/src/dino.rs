//! The `dino` hook: the student's distributions are to be those that a momentum teacher has for other views, centred and sharpened.
//!
//! Caron et al., "Emerging Properties in Self-Supervised Vision Transformers", 2021. The teacher sees the first views, the student all.

use sconce_plugin_api::prelude::*;

use crate::centre::Centre;
use crate::distillation::Distillation;
use crate::learner::Learner;
use crate::losses::{self, Sharpening, move_centre};

/// See the [module](self).
pub(crate) struct Dino {
    loss: losses::Dino,
    teacher_temperature: f64,
    centre: Centre,
    /// With means of the teacher's outputs.
    learner: Learner<Vec<f32>>,
}

#[hook(
    name = "dino",
    about = "Learns without labels: distributions are those of a momentum teacher for other views (DINO).",
    requires = ["sconce.forward/1", "sconce.given-loss/1", "sconce.vectors/1"],
    ranks = "all",
    publishes = ["output_spread"],
    state = [learner.watch, learner.parts],
    reads = [forward, given_loss, outputs, parameters, ranks]
)]
impl Hook for Dino {
    type Config = Distillation;

    fn new(config: Distillation, setup: &Setup<'_>) -> Result<Self> {
        config.check(setup)?;
        Ok(Dino {
            loss: losses::Dino::new(config.student_temperature),
            teacher_temperature: config.teacher_temperature,
            centre: config.centre("centre", setup),
            learner: Learner::taught_by(config.teacher(setup)?),
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
            let sharpening = Sharpening {
                centre: &self.centre.values(batch.task, theirs.width())?,
                temperature: self.teacher_temperature,
            };
            let (samples, gradient) = (batch.samples, batch.gradient);
            let value =
                (self.loss).compute(batch.outputs, theirs, sharpening, samples, gradient)?;
            let mut mean = vec![0.0; theirs.width()];
            move_centre(&mut mean, theirs, 0.0);
            batch.parts.add(batch.task, mean);
            Ok(value)
        })
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        self.learner.teacher.follow(task)?;
        let means = self.learner.parts.gather(task)?;
        self.centre
            .follow(task, &means.concat(), self.learner.teacher.width())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        self.learner.parts.end_batch(task);
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.learner.watch.end_epoch(task, Some(f64::ln))
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
    fn the_centre_follows_the_teacher_and_runs_resume() -> std::result::Result<(), Failed> {
        let run = || ScriptedRun::new().validation(0).views(3).batch_size(2);
        let config = json!({"centre_momentum": 0.5, "momentum": 0.5});
        let seen = run().drive::<Dino>(config.clone())?;
        assert_eq!(seen.losses().len(), 12);
        let moved = seen.changes().iter();
        assert_eq!(moved.filter(|one| one.name == "dino.centre").count(), 12);
        run().check_resume::<Dino>(config.clone())?;
        run().accumulate(2).check_resume::<Dino>(config)
    }

    #[test]
    fn outputs_that_say_nothing_are_reported() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new().validation(0).views(2).batch_size(2);
        let seen = run.outputs(|_| vec![0.0; 8]).drive::<Dino>(json!({}))?;
        assert_eq!(seen.warnings().len(), 1);
        Ok(())
    }
}
