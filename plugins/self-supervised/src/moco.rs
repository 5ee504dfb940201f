//! The `moco` hook: each view is to find what a momentum teacher says of its sample's other view, among a queue of earlier keys.
//!
//! He, Fan, Wu, Xie and Girshick, "Momentum Contrast for Unsupervised Visual Representation Learning", 2020. Both views are queries,
//! and both are keys.

use sconce_plugin_api::prelude::*;

use crate::learner::Learner;
use crate::losses::{InfoNce, Rows};
use crate::outputs::{check_plan, check_temperature};
use crate::queue::{Queue, QueuePlace, directions};
use crate::teacher::{MomentumSchedule, Teacher};

/// How keys are made, kept and compared.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Divides cosine similarities, above 0. Default 0.2.
    #[schemars(extend("exclusiveMinimum" = 0))]
    temperature: f64,
    /// Number of earlier keys, at least 1; with fewer than the data set has samples, a key is seldom among its own negatives.
    /// Default 4096.
    #[schemars(range(min = 1))]
    queue: u64,
    /// Fraction of the teacher that each update keeps, from 0 to 1. Default 0.99.
    #[schemars(range(min = 0.0, max = 1.0))]
    momentum: f64,
    /// How the momentum changes. Default `constant`.
    schedule: MomentumSchedule,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            temperature: 0.2,
            queue: 4096,
            momentum: 0.99,
            schedule: MomentumSchedule::Constant,
        }
    }
}

/// See the [module](self).
pub(crate) struct Moco {
    loss: InfoNce,
    learner: Learner<Vec<f32>>,
    queue: Queue,
    /// The batch's keys, of the other view of each query's sample.
    keys: Vec<f32>,
    place: QueuePlace,
}

#[hook(
    name = "moco",
    about = "Learns without labels: views find a momentum teacher's keys among a queue (MoCo).",
    requires = ["sconce.forward/1", "sconce.given-loss/1", "sconce.vectors/1"],
    ranks = "all",
    publishes = ["output_spread"],
    state = [learner.watch, learner.parts, place],
    reads = [forward, given_loss, outputs, parameters, ranks]
)]
impl Hook for Moco {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        check_temperature("temperature", config.temperature)?;
        check_plan(setup, 2)?;
        let teacher = Teacher::new((config.momentum, config.schedule), "", 2, setup)?;
        Ok(Moco {
            loss: InfoNce::new(config.temperature),
            learner: Learner::taught_by(teacher),
            queue: Queue::new("queue", config.queue, setup)?,
            keys: Vec::new(),
            place: QueuePlace::default(),
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
            let (values, width) = (theirs.values(), theirs.width());
            let (first, second) = values.split_at(values.len() / 2);
            self.keys.clear();
            self.keys.extend_from_slice(second);
            self.keys.extend_from_slice(first);
            let keys = Rows::new(&self.keys, width)?;
            let queued = self.queue.keys(batch.task, width)?;
            let queued = Rows::new(&queued, width)?;
            let value = (self.loss).compute(batch.outputs, keys, queued, batch.gradient)?;
            batch.parts.add(batch.task, directions(values, width));
            Ok(value)
        })
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        self.learner.teacher.follow(task)?;
        let keys = self.learner.parts.gather(task)?;
        let width = self.learner.teacher.width();
        self.queue.push(&mut self.place, task, &keys, width)
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        self.learner.parts.end_batch(task);
        Ok(())
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

    fn run() -> ScriptedRun {
        ScriptedRun::new().validation(0).views(2).batch_size(3)
    }

    #[test]
    fn the_teacher_follows_and_the_queue_fills_and_both_resume() -> std::result::Result<(), Failed>
    {
        let config = json!({"queue": 20, "momentum": 0.5});
        let seen = run().drive::<Moco>(config.clone())?;
        let losses: Vec<f64> = seen.losses().iter().map(|loss| loss.value).collect();
        assert!(losses.iter().all(|loss| *loss > 0.1), "{losses:?}");
        let of = |name: &str| {
            let changes = seen.changes().iter();
            changes.filter(|change| change.name == name).count()
        };
        assert_eq!(of("moco.queue"), 12);
        assert_eq!(of("moco.teacher/fc1.weight"), 12);
        run().check_resume::<Moco>(config.clone())?;
        run().accumulate(2).check_resume::<Moco>(config)
    }

    #[test]
    fn two_ranks_have_the_queue_of_one() {
        let config = json!({"queue": 50});
        let alone = run().accumulate(4).drive::<Moco>(config.clone());
        let alone = alone.expect("a run");
        assert_eq!(alone.losses().len(), 12);
        let ranks = ScriptedRun::drive_ranks::<Moco>(&config, 2, |_| run().accumulate(2));
        let ranks = ranks.expect("runs");
        let queue = |seen: &sconce_plugin_testing::Seen| {
            let mut changes = seen.changes().iter().rev();
            let last = changes.find(|change| change.name == "moco.queue");
            last.expect("a queue").after.clone()
        };
        assert_eq!(queue(&ranks[0]), queue(&ranks[1]));
    }
}
