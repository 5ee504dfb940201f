//! The `throughput` hook: samples per second, and tokens per second for samples made of tokens.
//!
//! `{"hook": "throughput", "config": {"window": 100, "every": 100}}`

use std::collections::VecDeque;
use std::time::Instant;

use sconce_plugin_api::moment::HasBatch;
use sconce_plugin_api::prelude::*;

use crate::stopwatch::Stopwatch;
use crate::times::{Seconds, Times};

/// Which iterations are measured, and what is reported.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Exclude this many iterations of each phase, from the first one of the process. Default 10.
    warm_up: u64,
    /// Number of latest iterations that `samples_per_second` covers, at least 1. Default 50.
    #[schemars(range(min = 1))]
    window: usize,
    /// Number of iterations between lines on the latest ones, at least 1.
    /// Default (null): only at the end of each pass, on all of its iterations.
    #[schemars(range(min = 1))]
    every: Option<u64>,
    /// Number of items in a sample, at least 1. Default (null): its tokens, if the inputs are
    /// integers of shape (batch, length); otherwise items are not counted.
    #[schemars(range(min = 1))]
    items_per_sample: Option<u64>,
    /// Whether lines are printed. Default true.
    log: bool,
    /// Whether the rates are published as metrics: `samples_per_second` and `items_per_second` of
    /// the window, and at the end of a pass `samples_per_second/whole` over all of its iterations,
    /// and `sample_time/mean` and `sample_time/median` in seconds. Default true.
    publish: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            warm_up: 10,
            window: 50,
            every: None,
            items_per_sample: None,
            log: true,
            publish: true,
        }
    }
}

/// Time and contents of one or more iterations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Done {
    seconds: f64,
    samples: u64,
    items: u64,
}

impl Done {
    fn add(self, other: Done) -> Done {
        Done {
            seconds: self.seconds + other.seconds,
            samples: self.samples + other.samples,
            items: self.items.saturating_add(other.items),
        }
    }

    fn samples_per_second(self) -> f64 {
        self.samples as f64 / self.seconds
    }

    /// Items per second; `None` if items are not counted.
    fn items_per_second(self) -> Option<f64> {
        (self.items > 0).then(|| self.items as f64 / self.seconds)
    }

    /// Formats as `1234 samples/s, 78976 items/s`.
    fn line(self) -> String {
        let samples = format!("{:.0} samples/s", self.samples_per_second());
        match self.items_per_second() {
            Some(items) => format!("{samples}, {items:.0} items/s"),
            None => samples,
        }
    }
}

/// A phase's iterations.
#[derive(Debug, Default)]
struct Measured {
    watch: Stopwatch,
    latest: VecDeque<Done>,
    pass: Done,
    run: Done,
    /// Seconds per sample, for each iteration of this pass.
    sample_times: Times,
}

impl Measured {
    fn add(&mut self, done: Done, window: usize) {
        while self.latest.len() >= window {
            self.latest.pop_front();
        }
        self.latest.push_back(done);
        self.pass = self.pass.add(done);
        self.run = self.run.add(done);
        self.sample_times
            .push(done.seconds / done.samples.max(1) as f64);
    }

    fn windowed(&self) -> Done {
        self.latest
            .iter()
            .fold(Done::default(), |sum, done| sum.add(*done))
    }
}

/// See the [module](self).
pub(crate) struct Throughput {
    config: Config,
    /// Indexed by the phase's number.
    phases: [Measured; Phase::ALL.len()],
    /// Tokens of a sample, which are the same for all; looked at once, as that would copy the batch from a GPU.
    tokens: Option<u64>,
}

impl Throughput {
    fn measured(&mut self, phase: Phase) -> Option<&mut Measured> {
        self.phases.get_mut(phase.number() as usize)
    }

    /// Number of items in the batch.
    fn items(&mut self, task: &At<'_, impl HasBatch>) -> u64 {
        let of_sample = match (self.config.items_per_sample, self.tokens) {
            (Some(items), _) | (None, Some(items)) => items,
            (None, None) => *self.tokens.insert(tokens_of_sample(task)),
        };
        of_sample.saturating_mul(task.batch_size())
    }
}

/// Number of tokens in each sample of the batch; 0 if its inputs aren't tokens.
fn tokens_of_sample(task: &At<'_, impl HasBatch>) -> u64 {
    let Ok(inputs) = task.inputs() else {
        return 0;
    };
    let is_whole = matches!(inputs.dtype(), Some(DType::U32 | DType::I64 | DType::U8));
    match inputs.shape() {
        [_, length] if is_whole => u64::try_from(*length).unwrap_or(0),
        _ => 0,
    }
}

#[hook(
    name = "throughput",
    about = "Counts samples and items a second, of the latest iterations and of all.",
    priority = HIGH,
    publishes = [
        "samples_per_second", "samples_per_second/whole", "items_per_second", "sample_time/mean",
        "sample_time/median"
    ],
    optional = [inputs, loss]
)]
impl Hook for Throughput {
    type Config = Config;

    fn new(config: Config, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Throughput {
            config,
            phases: Default::default(),
            tokens: None,
        })
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        if let Some(measured) = self.measured(task.phase()) {
            measured.watch.start(Instant::now());
            measured.pass = Done::default();
            measured.sample_times.clear();
        }
        Ok(())
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        if let Some(measured) = self.measured(task.phase()) {
            measured.watch.loaded(Instant::now());
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let (samples, items) = (task.batch_size(), self.items(task));
        let (warm_up, window) = (self.config.warm_up, self.config.window);
        if task.losses().is_awaited() && task.batch().is_multiple_of(window as u64) {
            // Batches that a GPU has not computed yet are not done: once in a window, the loss is waited for.
            task.loss();
        }
        let Some(measured) = self.measured(task.phase()) else {
            return Ok(());
        };
        let Some(lap) = measured.watch.lap(Instant::now(), warm_up) else {
            return Ok(());
        };
        let done = Done {
            seconds: lap.whole,
            samples,
            items,
        };
        measured.add(done, window);
        let latest = measured.windowed();
        if self.config.publish {
            task.publish_metric("samples_per_second", latest.samples_per_second())?;
            if let Some(items) = latest.items_per_second() {
                task.publish_metric("items_per_second", items)?;
            }
        }
        let is_due = self
            .config
            .every
            .is_some_and(|every| task.batch().is_multiple_of(every));
        if is_due && self.config.log {
            task.info(format_args!(
                "{}, iteration {}: {}",
                task.phase(),
                task.iteration(),
                latest.line()
            ));
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        let Some(measured) = self.measured(task.phase()) else {
            return Ok(());
        };
        let (pass, times) = (measured.pass, measured.sample_times.statistics());
        let Some(times) = times else {
            return Ok(());
        };
        if self.config.log {
            task.info(format_args!(
                "{}, epoch {}: {}, {} a sample (median {})",
                task.phase(),
                task.epoch(),
                pass.line(),
                Seconds(pass.seconds / pass.samples.max(1) as f64),
                Seconds(times.median)
            ));
        }
        if self.config.publish {
            let mean = pass.seconds / pass.samples.max(1) as f64;
            task.publish_metric("samples_per_second/whole", pass.samples_per_second())?;
            task.publish_metric("sample_time/mean", mean)?;
            task.publish_metric("sample_time/median", times.median)?;
        }
        Ok(())
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        // A validation in the middle of a training epoch is not part of its iterations.
        if task.phase() != Phase::Train
            && let Some(training) = self.measured(Phase::Train)
        {
            training.watch.start(Instant::now());
        }
        Ok(())
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, _outcome: &Outcome<'_>) -> Result<()> {
        for phase in Phase::ALL {
            let run = self.measured(phase).map(|measured| measured.run);
            if let Some(run) = run.filter(|run| run.samples > 0 && self.config.log) {
                task.info(format_args!("{phase}, the whole run: {}", run.line()));
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
    fn the_window_has_the_latest_iterations_and_the_pass_has_all() {
        let mut measured = Measured::default();
        for (seconds, samples) in [(1.0, 10), (2.0, 10), (0.5, 5)] {
            let items = samples * 3;
            measured.add(
                Done {
                    seconds,
                    samples,
                    items,
                },
                2,
            );
        }
        let latest = measured.windowed();
        assert_eq!(
            (latest.seconds, latest.samples, latest.items),
            (2.5, 15, 45)
        );
        assert!((latest.samples_per_second() - 6.0).abs() < 1e-12);
        assert!((latest.items_per_second().expect("items") - 18.0).abs() < 1e-12);
        assert_eq!(measured.pass.samples, 25);
        let times = measured.sample_times.statistics().expect("three");
        assert!((times.median - 0.1).abs() < 1e-12 && (times.most - 0.2).abs() < 1e-12);
        assert_eq!(latest.line(), "6 samples/s, 18 items/s");
        let none = Done { items: 0, ..latest };
        assert_eq!(
            (none.items_per_second(), none.line().as_str()),
            (None, "6 samples/s")
        );
    }

    #[test]
    fn rates_of_iterations_behind_the_warm_up_are_published() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new().epochs(2).validation(0);
        let seen =
            run.drive::<Throughput>(json!({"warm_up": 3, "every": 4, "items_per_sample": 7}))?;
        let counts = [
            "samples_per_second",
            "items_per_second",
            "samples_per_second/whole",
        ]
        .map(|name| seen.metric(Phase::Train, name).len());
        assert_eq!(counts, [5, 5, 2]);
        let lines = seen.messages().iter();
        let lines = lines.map(|message| message.text.split(": ").next().unwrap());
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "train, iteration 4",
                "train, epoch 1",
                "train, iteration 8",
                "train, epoch 2",
                "train, the whole run",
            ]
        );
        // Inputs that are no tokens have no items.
        let seen = run.drive::<Throughput>(json!({"warm_up": 0}))?;
        assert_eq!(seen.metric(Phase::Train, "items_per_second").len(), 0);
        assert_eq!(seen.metric(Phase::Train, "samples_per_second").len(), 8);
        Ok(())
    }
}
