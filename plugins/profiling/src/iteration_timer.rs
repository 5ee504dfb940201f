//! The `iteration-timer` hook: how long iterations take, and how much of that is spent waiting for
//! data.
//!
//! `{"hook": "iteration-timer", "config": {"warm_up": 20, "every": 100}}`

use std::time::Instant;

use sconce_plugin_api::prelude::*;

use crate::stopwatch::Stopwatch;
use crate::times::{Seconds, Statistics, Times};

/// Which iterations are measured, and what is reported.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Exclude this many iterations of each phase, from the first one of the process: caches are
    /// cold then, and memory pages not yet mapped. Default 10.
    warm_up: u64,
    /// Number of iterations between lines on the epoch so far, at least 1.
    /// Default (null): only at the end of each pass.
    #[schemars(range(min = 1))]
    every: Option<u64>,
    /// Whether lines are printed. Default true.
    log: bool,
    /// Whether the times are published as metrics: `iteration_time` and `data_time` of the last
    /// iteration, in seconds, and at the end of a pass their statistics, such as
    /// `iteration_time/median`. Default true.
    publish: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            warm_up: 10,
            every: None,
            log: true,
            publish: true,
        }
    }
}

/// A phase's iterations.
#[derive(Debug, Default)]
struct Timed {
    watch: Stopwatch,
    /// Times of this pass.
    whole: Times,
    data: Times,
    /// Totals of all passes: number of iterations, and their seconds.
    count: u64,
    seconds: f64,
}

/// See the [module](self).
pub(crate) struct IterationTimer {
    config: Config,
    /// Indexed by the phase's number.
    phases: [Timed; Phase::ALL.len()],
}

impl IterationTimer {
    fn timed(&mut self, phase: Phase) -> Option<&mut Timed> {
        self.phases.get_mut(phase.number() as usize)
    }

    fn tell(&mut self, task: &TaskView<'_>) {
        let Some(timed) = self.timed(task.phase()) else {
            return;
        };
        if let (Some(whole), Some(data)) = (timed.whole.statistics(), timed.data.statistics()) {
            let (phase, epoch) = (task.phase(), task.epoch());
            task.info(format_args!(
                "{phase}, epoch {epoch}: {}",
                line(whole, data)
            ));
        }
    }
}

/// Formats as
/// `4.31 ms an iteration (median 4.20 ms, 4.10 ms to 9.80 ms, 27 of them), of which data 10.2 µs (0.2 %)`.
fn line(whole: Statistics, data: Statistics) -> String {
    format!(
        "{} an iteration (median {}, {} to {}, {} of them), of which data {} ({:.1} %)",
        Seconds(whole.mean),
        Seconds(whole.median),
        Seconds(whole.least),
        Seconds(whole.most),
        whole.count,
        Seconds(data.mean),
        100.0 * data.mean / whole.mean
    )
}

#[hook(
    name = "iteration-timer",
    about = "Times iterations and their waiting for data: mean, median and range.",
    priority = HIGH,
    publishes = [
        "iteration_time", "iteration_time/mean", "iteration_time/median", "iteration_time/min",
        "iteration_time/max", "data_time", "data_time/mean", "data_time/median", "data_time/min",
        "data_time/max"
    ]
)]
impl Hook for IterationTimer {
    type Config = Config;

    fn new(config: Config, _setup: &Setup<'_>) -> Result<Self> {
        Ok(IterationTimer {
            config,
            phases: Default::default(),
        })
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        if let Some(timed) = self.timed(task.phase()) {
            timed.whole.clear();
            timed.data.clear();
            timed.watch.start(Instant::now());
        }
        Ok(())
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        if let Some(timed) = self.timed(task.phase()) {
            timed.watch.loaded(Instant::now());
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let warm_up = self.config.warm_up;
        let lap = self.timed(task.phase()).and_then(|timed| {
            let lap = timed.watch.lap(Instant::now(), warm_up)?;
            timed.whole.push(lap.whole);
            timed.data.push(lap.data);
            timed.count += 1;
            timed.seconds += lap.whole;
            Some(lap)
        });
        let Some(lap) = lap else {
            return Ok(());
        };
        if self.config.publish {
            task.publish_metric("iteration_time", lap.whole)?;
            task.publish_metric("data_time", lap.data)?;
        }
        let is_due = self
            .config
            .every
            .is_some_and(|every| task.batch().is_multiple_of(every));
        if is_due && self.config.log {
            self.tell(task);
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        if self.config.log {
            self.tell(task);
        }
        let publishes = self.config.publish;
        let Some(timed) = self.timed(task.phase()).filter(|_| publishes) else {
            return Ok(());
        };
        for (name, times) in [
            ("iteration_time", &mut timed.whole),
            ("data_time", &mut timed.data),
        ] {
            let Some(statistics) = times.statistics() else {
                continue;
            };
            for (what, value) in [
                ("mean", statistics.mean),
                ("median", statistics.median),
                ("min", statistics.least),
                ("max", statistics.most),
            ] {
                task.publish_metric(&format!("{name}/{what}"), value)?;
            }
        }
        Ok(())
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        // A validation in the middle of a training epoch is not part of its iterations.
        if task.phase() != Phase::Train
            && let Some(training) = self.timed(Phase::Train)
        {
            training.watch.start(Instant::now());
        }
        Ok(())
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, _outcome: &Outcome<'_>) -> Result<()> {
        for phase in Phase::ALL {
            if let Some(timed) = self.timed(phase).filter(|timed| timed.count > 0) {
                let (mean, count) = (timed.seconds / timed.count as f64, timed.count);
                if self.config.log {
                    let mean = Seconds(mean);
                    task.info(format_args!(
                        "{phase}, the whole run: {mean} an iteration, {count} of them"
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn iterations_behind_the_warm_up_are_measured() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new().epochs(2);
        let seen = run.drive::<IterationTimer>(json!({"warm_up": 3, "every": 2}))?;
        let count = |phase, name: &str| seen.metric(phase, name).len();
        // Five of eight batches in training, one of four in validation.
        for (phase, measured, passes) in [(Phase::Train, 5, 2), (Phase::Val, 1, 1)] {
            for name in ["iteration_time", "data_time"] {
                assert_eq!(count(phase, name), measured, "{name}");
                assert_eq!(count(phase, &format!("{name}/median")), passes, "{name}");
            }
        }
        // The text up to the times.
        let lines = seen.messages().iter();
        let lines = lines.map(|message| message.text.split(": ").next().unwrap());
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "train, epoch 0",
                "train, epoch 1",
                "train, epoch 1",
                "train, epoch 1",
                "train, epoch 2",
                "val, epoch 2",
                "val, epoch 2",
                "train, the whole run",
                "val, the whole run",
            ]
        );
        let seen = run.drive::<IterationTimer>(json!({"log": false, "publish": false}))?;
        assert_eq!((seen.messages(), seen.metrics()), (&[][..], &[][..]));
        Ok(())
    }
}
