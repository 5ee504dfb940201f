//! The `dino` hook: the student's distributions are to be those that a momentum teacher has for other views, centred and sharpened.
//!
//! Caron et al., "Emerging Properties in Self-Supervised Vision Transformers", 2021. The teacher sees the first views, the student all.

use sconce_plugin_api::prelude::*;

use crate::centre::Centre;
use crate::collapse::Watch;
use crate::losses::{self, Rows, Sharpening, move_centre};
use crate::outputs::{LossGiver, check_plan, check_temperature};
use crate::teacher::{MomentumSchedule, Teacher};
use crate::update_parts::UpdateParts;

/// How outputs become distributions, and how teacher and centre follow.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Divides the student's outputs, above 0. Default 0.1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    student_temperature: f64,
    /// Divides the teacher's outputs less the centre, above 0; smaller than the student's. Default 0.04.
    #[schemars(extend("exclusiveMinimum" = 0))]
    teacher_temperature: f64,
    /// Fraction of the centre that each update keeps, from 0 to 1. Default 0.9.
    #[schemars(range(min = 0.0, max = 1.0))]
    centre_momentum: f64,
    /// Fraction of the teacher that each update keeps, from 0 to 1. Default 0.996.
    #[schemars(range(min = 0.0, max = 1.0))]
    momentum: f64,
    /// How the teacher's momentum changes. Default `cosine`.
    schedule: MomentumSchedule,
    /// Number of views that the teacher sees, at least 1: the first. Default 2.
    #[schemars(range(min = 1))]
    global_views: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            student_temperature: 0.1,
            teacher_temperature: 0.04,
            centre_momentum: 0.9,
            momentum: 0.996,
            schedule: MomentumSchedule::Cosine,
            global_views: 2,
        }
    }
}

/// See the [module](self).
pub(crate) struct Dino {
    loss: losses::Dino,
    teacher_temperature: f64,
    giver: LossGiver,
    teacher: Teacher,
    centre: Centre,
    watch: Watch,
    /// Means of the teacher's outputs.
    parts: UpdateParts<Vec<f32>>,
}

#[hook(
    name = "dino",
    about = "Learns without labels: distributions are those of a momentum teacher for other views (DINO).",
    requires = ["sconce.forward/1", "sconce.given-loss/1", "sconce.vectors/1"],
    ranks = "all",
    publishes = ["output_spread"],
    state = [watch, parts],
    reads = [forward, given_loss, outputs, parameters, ranks]
)]
impl Hook for Dino {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        check_temperature("student_temperature", config.student_temperature)?;
        check_temperature("teacher_temperature", config.teacher_temperature)?;
        if config.global_views == 0 {
            bail!("`global_views` is at least 1");
        }
        check_plan(setup, u64::from(config.global_views).max(2))?;
        let momentum = (config.momentum, config.schedule);
        Ok(Dino {
            loss: losses::Dino::new(config.student_temperature),
            teacher_temperature: config.teacher_temperature,
            giver: LossGiver::default(),
            teacher: Teacher::new(momentum, "", config.global_views, setup)?,
            centre: Centre::new("centre", config.centre_momentum, setup),
            watch: Watch::default(),
            parts: UpdateParts::default(),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.teacher.begin(task)
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        self.teacher.look(task)
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        let (loss, teacher, parts) = (&mut self.loss, &mut self.teacher, &mut self.parts);
        let (centre, temperature) = (&self.centre, self.teacher_temperature);
        let compute = |task: &TaskView<'_>, outputs: Rows<'_>, samples, gradient: &mut [f32]| {
            let (theirs, width) = teacher.outputs(task)?;
            let rows = Rows::new(theirs, width)?;
            let centre = centre.values(task, width)?;
            let sharpening = Sharpening {
                centre: &centre,
                temperature,
            };
            let value = loss.compute(outputs, rows, sharpening, samples, gradient)?;
            let mut mean = vec![0.0; width];
            move_centre(&mut mean, rows, 0.0);
            parts.add(task, mean);
            Ok(value)
        };
        self.giver.give(task, &mut self.watch, compute)
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        self.teacher.follow(task)?;
        let means = self.parts.gather(task)?;
        self.centre
            .follow(task, &means.concat(), self.teacher.width())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        self.parts.end_batch(task);
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.watch.end_epoch(task, |columns| Some(columns.ln()))
    }

    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        _checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.teacher.begin(task)
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
