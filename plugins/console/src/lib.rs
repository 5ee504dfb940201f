//! The `console` hook: a line every few iterations, one per epoch and phase, and one at the end.
//!
//! ```text
//! training 5 epochs
//! console: epoch 1/5  batch  50/141  loss 1.2032  accuracy 0.6428  lr 1.0000e-3  61440 samples/s  eta 0:00:01
//! console: epoch 1/5  train  loss 0.9713  accuracy 0.7324  0.15 s  60123 samples/s
//! console: epoch 1/5  val  loss 0.5120  accuracy 0.8570  0.01 s  181241 samples/s
//! completed in 0:00:01: 5 epochs, 705 iterations
//! ```
//!
//! In an interval's line the loss is the mean over the last `window` iterations, and every other
//! metric the mean over the epoch so far. In an epoch's line all are means over the whole pass. A
//! validation's line shows the number of training epochs finished before it; the line of an epoch
//! cut short by a stop says after which batch.

#![forbid(unsafe_code)]

mod config;
mod line;
mod measure;
mod report;

use sconce_plugin_api::prelude::*;

use config::Config;
use measure::{Meter, Window};

/// Whether the manifest has an earlier entry for this hook.
fn is_second(setup: &Setup<'_>) -> bool {
    let Ok(manifest) = setup.manifest() else {
        return false;
    };
    let hooks = manifest["hooks"].as_array().into_iter().flatten();
    let mut earlier = hooks.take_while(|entry| entry["name"] != setup.name());
    earlier.any(|entry| {
        let hook = entry["hook"].as_str().unwrap_or_default();
        hook.rsplit('/').next() == Some("console")
    })
}

struct Console {
    config: Config,
    /// The run's name, printed every `name_every` lines, and the number of lines so far.
    name: String,
    lines: u64,
    losses: Window,
    /// Batches whose losses are still being computed on a GPU, and are read when a line is due.
    awaited: usize,
    /// Measured since the last interval's line.
    interval: Meter,
    /// Measured since the training epoch began.
    training: Meter,
    /// Measured since the pass of another phase began, which may lie within a training epoch.
    evaluation: Meter,
}

#[hook(
    name = "console",
    about = "Prints loss, metrics, learning rate, speed and time left, by iterations and epochs.",
    priority = LOW,
    reads = groups,
    optional = loss
)]
impl Hook for Console {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        if is_second(setup) {
            setup.warn("another `console` is there already: every line is printed twice");
        }
        let name = match config.name_every {
            0 => String::new(),
            _ => setup.manifest()?["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        };
        Ok(Console {
            name,
            lines: 0,
            losses: Window::new(config.window),
            awaited: 0,
            config,
            interval: Meter::default(),
            training: Meter::default(),
            evaluation: Meter::default(),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        task.info(report::begin(task));
        Ok(())
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        let meter = Meter::start(task.elapsed());
        if task.phase() == Phase::Train {
            self.training = meter;
            self.interval = meter;
        } else {
            self.evaluation = meter;
        }
        Ok(())
    }

    /// Done here and not in `after_iter`, so that a skipped batch doesn't count the previous loss
    /// twice.
    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        if task.losses().is_awaited() {
            self.awaited += 1;
        } else if let Some(loss) = task.loss() {
            self.losses.push(loss);
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            self.evaluation.add(task.batch_size());
            return Ok(());
        }
        self.training.add(task.batch_size());
        self.interval.add(task.batch_size());
        if self
            .config
            .is_due(task.iteration(), task.batch(), task.batches())
        {
            let now = task.elapsed();
            let speed = self.interval.speed(now);
            self.read_awaited(task);
            let loss = self.losses.mean();
            let line = report::interval(task, &self.config, loss, speed);
            self.say(task, line);
            self.interval = Meter::start(now);
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        let now = task.elapsed();
        let is_training = task.phase() == Phase::Train;
        let pass = if is_training {
            self.training
        } else {
            self.evaluation
        };
        if self.config.by_epoch {
            let (time, speed) = (pass.time(now), pass.speed(now));
            let line = report::epoch(task, &self.config, time, speed);
            self.say(task, line);
        }
        if !is_training {
            // Training speed excludes the time of evaluations.
            self.training.leave_out(pass.time(now));
            self.interval.leave_out(pass.time(now));
        }
        Ok(())
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, outcome: &Outcome<'_>) -> Result<()> {
        task.info(report::end(task, outcome));
        Ok(())
    }
}

impl Console {
    /// Reads the losses of the batches since the last line, as many as the window holds.
    fn read_awaited(&mut self, task: &TaskView<'_>) {
        let awaited = std::mem::take(&mut self.awaited);
        if awaited == 0 {
            return;
        }
        for loss in task.losses().recent(awaited.min(self.config.window)) {
            self.losses.push(loss);
        }
    }

    /// Prints a line, preceded by the run's name when that is due.
    fn say(&mut self, task: &TaskView<'_>, line: impl std::fmt::Display) {
        let every = self.config.name_every;
        if every > 0 && self.lines.is_multiple_of(every) {
            task.info(format_args!("{}  {line}", self.name));
        } else {
            task.info(line);
        }
        self.lines += 1;
    }
}

export_plugin!(Console);

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Level, ScriptedRun, Seen};
    use serde_json::json;

    use super::*;

    fn lines(seen: &Seen) -> Vec<&str> {
        let said = seen.messages().iter();
        let said = said.filter(|message| message.level == Level::Info);
        said.map(|message| message.text.as_str()).collect()
    }

    #[test]
    fn lines_tell_of_intervals_epochs_and_the_end() -> std::result::Result<(), Failed> {
        // Iterations of 0.5 s and two samples; losses of 8, 4, 2 and 1 in each epoch.
        let run = ScriptedRun::new()
            .epochs(2)
            .seconds_per_iteration(0.5)
            .loss(|at| match at.phase {
                Phase::Train => 8.0 / 2.0_f64.powi(at.batch as i32),
                _ => 0.5,
            })
            .metric(Phase::Val, "accuracy", |epoch| 0.25 * epoch as f64);
        let config = json!({"interval": 3, "window": 2, "digits": 2});
        assert_eq!(
            lines(&run.drive::<Console>(config)?),
            [
                "training 2 epochs",
                "epoch 1/2  batch 3/4  loss 3.00  lr 1.00e-1  4 samples/s  eta 0:00:03",
                "epoch 1/2  train  loss 3.75  2.00 s  4 samples/s",
                "epoch 1/2  val  loss 0.50  accuracy 0.25  0.00 s",
                "epoch 2/2  batch 3/4  loss 3.00  lr 1.00e-1  4 samples/s  eta 0:00:01",
                "epoch 2/2  train  loss 3.75  2.00 s  4 samples/s",
                "epoch 2/2  val  loss 0.50  accuracy 0.50  0.00 s",
                "completed in 0:00:04: 2 epochs, 8 iterations",
            ]
        );
        let config = json!({"interval": 3, "count": "run", "by_epoch": false, "window": 1});
        assert_eq!(
            lines(&run.drive::<Console>(config)?),
            [
                "training 2 epochs",
                "epoch 1/2  iteration 3/8  loss 2.0000  lr 1.0000e-1  4 samples/s  eta 0:00:03",
                "epoch 2/2  iteration 6/8  loss 4.0000  lr 1.0000e-1  4 samples/s  eta 0:00:01",
                "completed in 0:00:04: 2 epochs, 8 iterations",
            ]
        );
        Ok(())
    }

    #[test]
    fn the_last_line_tells_how_far_a_failed_run_came() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new().epochs(1).fails_in(2, "no more memory");
        let seen = run.drive::<Console>(json!({"name_every": 2, "interval": 1, "digits": 1}))?;
        assert_eq!(
            lines(&seen),
            [
                "training 1 epoch",
                "scripted  epoch 1/1  batch 1/4  loss 1.0  lr 1.0e-1  2 samples/s  eta 0:00:03",
                "epoch 1/1  batch 2/4  loss 7.5e-1  lr 1.0e-1  2 samples/s  eta 0:00:02",
                "failed after 0:00:02: 0 epochs, 2 iterations",
            ]
        );
        Ok(())
    }
}
