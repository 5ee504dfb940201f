//! The `swav` hook: from each view, the prototypes are to be told that another view of the sample is assigned to.
//!
//! Caron, Misra, Mairal, Goyal, Bojanowski and Joulin, "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments", 2020.
//! The model ends with a layer of directions and one of prototypes, without bias: their weights, which are directions as well.

use sconce_plugin_api::prelude::*;

use crate::learner::{Batch, Learner};
use crate::losses::{self, Rows, SwavConfig, scores};
use crate::outputs::{check_plan, check_temperature};
use crate::prototypes::{ModuleOutputs, Prototypes};
use crate::queue::{Queue, QueuePlace};
use crate::teacher::{MomentumSchedule, Teacher};

/// How views are assigned to prototypes and predicted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Name of the last layer, a `linear` without bias.
    prototypes: String,
    /// Name of the layer before, a `unit-norm`; needed for a queue.
    #[serde(default)]
    embeddings: Option<String>,
    /// Divides the scores that predict, above 0. Default 0.1.
    #[serde(default = "temperature")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    temperature: f64,
    /// Divides the scores that are assigned, above 0: the smaller, the closer each view is to a single prototype. Default 0.05.
    #[serde(default = "epsilon")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    epsilon: f64,
    /// Rounds by which the assignments are spread evenly over the prototypes, from 1 to 1000. Default 3.
    #[serde(default = "rounds")]
    #[schemars(range(min = 1, max = 1000))]
    rounds: u32,
    /// Number of views that are assigned, at least 1: the first. Default 2.
    #[serde(default = "assigned_views")]
    #[schemars(range(min = 1))]
    assigned_views: u32,
    /// Number of earlier embeddings of each assigned view that the assignments are spread over as well, where a batch has fewer samples than
    /// there are prototypes. Default 0.
    #[serde(default)]
    queue: u64,
    /// Epoch from which the queue takes part, once it is full. Default 1.
    #[serde(default = "queue_epoch")]
    queue_epoch: u64,
    /// Fraction of a momentum teacher that each update keeps, from 0 to 1; the views are then assigned by the teacher. Default: no teacher.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    momentum: Option<f64>,
}

fn temperature() -> f64 {
    0.1
}

fn epsilon() -> f64 {
    0.05
}

fn rounds() -> u32 {
    3
}

fn assigned_views() -> u32 {
    2
}

fn queue_epoch() -> u64 {
    1
}

/// See the [module](self).
pub(crate) struct Swav {
    loss: losses::Swav,
    prototypes: Prototypes,
    assigned_views: usize,
    /// Of each assigned view, if there are any; and the embeddings for them.
    queues: Vec<Queue>,
    queue_epoch: u64,
    is_resumed: bool,
    embeddings: ModuleOutputs,
    /// With embeddings of assigned views.
    learner: Learner<Vec<f32>>,
    places: Vec<QueuePlace>,
}

#[hook(
    name = "swav",
    about = "Learns without labels: views predict each other's balanced assignments to prototypes (SwAV).",
    requires = ["sconce.forward/1", "sconce.given-loss/1", "sconce.vectors/1"],
    ranks = "all",
    publishes = ["output_spread"],
    state = [learner.watch, learner.parts, places],
    reads = [forward, given_loss, outputs, parameters, ranks]
)]
impl Hook for Swav {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        check_temperature("temperature", config.temperature)?;
        check_temperature("epsilon", config.epsilon)?;
        if !(1..=1000).contains(&config.rounds) {
            bail!("`rounds` is from 1 to 1000, found {}", config.rounds);
        }
        if config.assigned_views == 0 {
            bail!("`assigned_views` is at least 1");
        }
        check_plan(setup, u64::from(config.assigned_views).max(2))?;
        let views = config.assigned_views;
        let embeddings = match (&config.embeddings, config.queue) {
            (_, 0) => "",
            (Some(name), _) => name,
            (None, _) => {
                bail!("a `queue` needs the name of the layer before the prototypes: `embeddings`")
            }
        };
        let teacher = match config.momentum {
            Some(momentum) => {
                let momentum = (momentum, MomentumSchedule::Constant);
                Teacher::new(momentum, embeddings, views, setup)?
            }
            None => Teacher::none(),
        };
        let queues = match config.queue {
            0 => Vec::new(),
            size => (0..views)
                .map(|view| Queue::new(&format!("queue.{view}"), size, setup))
                .collect::<Result<_>>()?,
        };
        let mut reads = vec!["given_loss", "outputs", "parameters", "ranks"];
        if !teacher.is_none() {
            reads.push("forward");
        }
        setup.reads(&reads)?;
        // A teacher says itself what it has for embeddings.
        let heard = if teacher.is_none() { embeddings } else { "" };
        Ok(Swav {
            loss: losses::Swav::new(SwavConfig {
                temperature: config.temperature,
                epsilon: config.epsilon,
                iterations: config.rounds as usize,
            }),
            prototypes: Prototypes::new(&config.prototypes, setup)?,
            assigned_views: views as usize,
            places: queues.iter().map(|_| QueuePlace::default()).collect(),
            queues,
            queue_epoch: config.queue_epoch,
            is_resumed: setup.is_resumed(),
            embeddings: ModuleOutputs::new(heard, setup)?,
            learner: Learner::taught_by(teacher),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.prototypes.check(task)?;
        // Dividing directions by their lengths again would change their last bits.
        if !self.is_resumed {
            self.prototypes.normalise(task)?;
        }
        self.learner.teacher.begin(task)
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        self.embeddings.clear();
        self.learner.teacher.look(task)
    }

    fn module_forward(&mut self, task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
        self.embeddings.note(task, module)
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        self.learner.give(task, |batch| {
            let Batch {
                task,
                outputs,
                samples,
                gradient,
                teacher,
                parts,
            } = batch;
            let (columns, count) = (outputs.width(), samples * self.assigned_views);
            if self.queues.is_empty() {
                let of_assigned = if teacher.is_none() {
                    outputs.first(count)?
                } else {
                    teacher.outputs(task)?
                };
                let assigned = (of_assigned, Rows::new(&[], columns)?);
                return Ok(self.loss.compute(outputs, assigned, samples, gradient)?);
            }
            let (weight, width) = self.prototypes.values(task, teacher)?;
            let weight = Rows::new(&weight, width)?;
            let of_teacher;
            let (seen, of_assigned) = if teacher.is_none() {
                (self.embeddings.rows()?.first(count)?, outputs.first(count)?)
            } else {
                let seen = teacher.outputs(task)?;
                of_teacher = scores(seen, weight)?;
                (seen, Rows::new(&of_teacher, columns)?)
            };
            let mut of_queue = Vec::new();
            if task.epoch() + 1 >= self.queue_epoch && self.places.iter().all(QueuePlace::is_full) {
                for queue in &self.queues {
                    let keys = queue.keys(task, width)?;
                    of_queue.extend(scores(Rows::new(&keys, width)?, weight)?);
                }
            }
            let assigned = (of_assigned, Rows::new(&of_queue, columns)?);
            let value = self.loss.compute(outputs, assigned, samples, gradient)?;
            parts.add(task, seen.values().to_vec());
            Ok(value)
        })
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        let teacher = &mut self.learner.teacher;
        teacher.follow(task)?;
        self.prototypes.normalise(task)?;
        self.prototypes.normalise_published(task, teacher)?;
        if self.queues.is_empty() {
            return Ok(());
        }
        let width = if teacher.is_none() {
            self.embeddings.width()
        } else {
            teacher.width()
        };
        let batches = self.learner.parts.gather(task)?;
        let views = self.queues.len();
        for (view, (queue, place)) in self.queues.iter().zip(&mut self.places).enumerate() {
            // Of each batch, a view's part of the rows.
            let of_view = |batch: &Vec<f32>| {
                let each = batch.len() / views;
                batch.iter().skip(view * each).take(each).copied().collect()
            };
            let keys: Vec<Vec<f32>> = batches.iter().map(of_view).collect();
            queue.push(place, task, &keys, width)?;
        }
        Ok(())
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
    use sconce_plugin_api::Point;
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    /// Three samples in two views, embeddings of four columns and two prototypes.
    fn run() -> ScriptedRun {
        ScriptedRun::new()
            .validation(0)
            .views(2)
            .batch_size(3)
            .empty_model()
            .parameter(
                "prototypes.weight",
                &[2, 4],
                &[2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 4.0],
            )
            .module("directions", "unit-norm", 4)
            .module("prototypes", "linear", 2)
    }

    #[test]
    fn prototypes_stay_directions_and_queues_fill_and_resume() -> std::result::Result<(), Failed> {
        let config = json!({"prototypes": "prototypes"});
        let seen = run().drive::<Swav>(config.clone())?;
        assert_eq!(seen.losses().len(), 12);
        let changes = seen.changes().iter();
        let mut weights = changes.filter(|change| change.name == "prototypes.weight");
        let first = &weights.next().expect("they are normalised").after;
        let is_close = |found: &f32, wanted: f32| (found - wanted).abs() < 1e-6;
        assert!(is_close(&first[0], 1.0) && is_close(&first[5], 0.6) && is_close(&first[7], 0.8));
        run().check_resume::<Swav>(config)?;
        let queued = json!({"prototypes": "prototypes", "embeddings": "directions", "queue": 7});
        assert_eq!(seen.called(Point::ModuleForward), 0);
        let seen = run().drive::<Swav>(queued.clone())?;
        // At one of two modules.
        assert_eq!(seen.called(Point::ModuleForward), 12);
        for queue in ["swav.queue.0", "swav.queue.1"] {
            let pushed = seen.changes().iter().filter(|one| one.name == queue);
            assert_eq!(pushed.count(), 12);
        }
        run().check_resume::<Swav>(queued.clone())?;
        run().accumulate(2).check_resume::<Swav>(queued)?;
        let teacher = json!({"prototypes": "prototypes", "embeddings": "directions", "queue": 7, "momentum": 0.5});
        run().check_resume::<Swav>(teacher)
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let told = |run: ScriptedRun, config| {
            let told = run.drive::<Swav>(config).expect_err("it is refused");
            told.message
        };
        let queue = json!({"prototypes": "prototypes", "queue": 7});
        assert!(told(run(), queue).contains("`embeddings`"));
        assert!(told(run(), json!({"prototypes": "prototype"})).contains("no module `prototype`"));
        let bias = run().parameter("prototypes.bias", &[2], &[0.0, 0.0]);
        assert!(told(bias, json!({"prototypes": "prototypes"})).contains("`\"bias\": false`"));
    }
}
