//! The `progress` hook: a bar for each pass over a phase's data, with metrics, rate and time left.
//!
//! ```text
//! epoch 2/5 train [████████▎           ] 58/141  loss 0.3412  61440 samples/s  eta 0:00:02
//! ```
//!
//! The bar is the last line of the terminal; the host keeps it below all messages. Where messages
//! don't go to a terminal, plain lines are printed instead. The rate and the times cover the pass
//! since it began or the run resumed; the number of batches is known before the first pass, so that
//! the bar needs no first pass to learn it.

mod bar;
mod config;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use bar::Bar;
use config::{Config, Rate};
use sconce_plugin_api::prelude::*;

use crate::window::{Smoothing, Window};

/// State of the hook between calls.
pub(crate) struct Progress {
    config: Config,
    losses: Window,
    /// Batches whose losses are still being computed on a GPU, and are read when they are shown.
    awaited: usize,
    /// A stack: a validation may lie within a training epoch.
    passes: Vec<Pass>,
    /// When the bar is drawn next.
    due: Instant,
    refresh: Duration,
}

/// A pass over a phase's data.
struct Pass {
    /// Present only on a terminal.
    bar: Option<Bar>,
    /// `epoch 2/5 train`.
    name: String,
    begun: Instant,
    /// Batches that were done before the run resumed; `None` before the first one.
    before: Option<u64>,
    samples: u64,
}

#[hook(
    name = "progress",
    about = "Draws a progress bar for each pass, with metrics, rate and time left.",
    priority = LOW,
    optional = loss
)]
impl Hook for Progress {
    type Config = Config;

    fn new(config: Config, _setup: &Setup<'_>) -> Result<Self> {
        let seconds = 1.0 / config.refresh_per_second;
        Ok(Progress {
            refresh: Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(1)),
            losses: Window::new(config.window),
            awaited: 0,
            config,
            passes: Vec::new(),
            due: Instant::now(),
        })
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        let phase = task.phase();
        // In training the current epoch, in evaluation the last finished one.
        let epoch = task.epoch() + u64::from(phase == Phase::Train);
        let all = task.epochs();
        let width = all.to_string().len();
        let name = match phase {
            Phase::Train | Phase::Val => format!("epoch {epoch:width$}/{all} {}", task.stream()),
            _ => task.stream().to_owned(),
        };
        let bar = match task.screen() {
            Some(_) => Some(Bar::new(task.batches(), name.clone(), &self.config)?),
            None => None,
        };
        if phase == Phase::Train {
            // Discards a pass that a rollback left unfinished.
            self.passes.clear();
        }
        self.passes.push(Pass {
            bar,
            name,
            begun: Instant::now(),
            // A reopened pass shows the counters of its start here.
            before: None,
            samples: 0,
        });
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if task.phase() == Phase::Train {
            if task.losses().is_awaited() {
                self.awaited += 1;
            } else if let Some(loss) = task.loss() {
                self.losses.push(loss);
            }
        }
        let Some(pass) = self.passes.last_mut() else {
            return Ok(());
        };
        pass.samples += task.batch_size();
        pass.before.get_or_insert(task.batch().saturating_sub(1));
        if pass.bar.is_none() {
            let (batch, batches) = (task.batch(), task.batches());
            // The last line is printed when the pass is over.
            let part = |batch: u64| batch * self.config.plain_lines / batches.max(1);
            if batch < batches && part(batch) > part(batch - 1) {
                task.info(self.plain(task));
            }
            return Ok(());
        }
        let now = Instant::now();
        if now >= self.due {
            self.due = now + self.refresh;
            if let Some(screen) = task.screen()
                && let Some(text) = self.drawn(task, &screen)
            {
                screen.set_status(&text);
            }
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        if self.passes.last().is_some_and(|pass| pass.bar.is_none()) {
            if self.config.plain_lines > 0 {
                task.info(self.plain(task));
            }
        } else if let Some(screen) = task.screen()
            && let Some(text) = self.drawn(task, &screen)
        {
            screen.set_status("");
            if self.config.leave {
                task.info(text);
            }
        }
        self.passes.pop();
        Ok(())
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, _outcome: &Outcome<'_>) -> Result<()> {
        if let Some(screen) = task.screen() {
            screen.set_status("");
        }
        Ok(())
    }
}

impl Progress {
    /// Renders the bar of the current pass.
    fn drawn(
        &mut self,
        task: &TaskView<'_>,
        screen: &sconce_plugin_api::Screen<'_>,
    ) -> Option<String> {
        let message = self.message(task);
        let pass = self.passes.last()?;
        let bar = pass.bar.as_ref()?;
        Some(bar.draw(task.batch(), message, screen.columns()))
    }

    /// Renders the same as a line without a bar.
    fn plain(&mut self, task: &TaskView<'_>) -> String {
        let message = self.message(task);
        let name = self.passes.last().map_or("", |pass| &pass.name);
        format!("{name} {}/{}{message}", task.batch(), task.batches())
    }

    /// Metrics, rate and remaining times.
    fn message(&mut self, task: &TaskView<'_>) -> String {
        let awaited = std::mem::take(&mut self.awaited);
        if awaited > 0 {
            for loss in task.losses().recent(awaited.min(self.config.window)) {
                self.losses.push(loss);
            }
        }
        let mut text = String::new();
        let Config { digits, .. } = self.config;
        let phase = task.phase();
        for name in &self.config.metrics {
            let smoothed = (phase == Phase::Train && name == "loss")
                .then(|| self.losses.value(Smoothing::Mean))
                .flatten();
            if let Some(value) = smoothed.or_else(|| task.metric(name)) {
                // Writing to a string can't fail.
                let _ = write!(text, "  {name} {value:.digits$}");
            }
        }
        let Some(pass) = self.passes.last() else {
            return text;
        };
        let seconds = pass.begun.elapsed().as_secs_f64();
        let before = pass.before.unwrap_or(task.batch());
        let done = task.batch().saturating_sub(before) as f64;
        if seconds > 0.0 {
            let _ = match self.config.rate {
                Rate::Samples => write!(text, "  {:.0} samples/s", pass.samples as f64 / seconds),
                Rate::Iterations => write!(text, "  {:.1} iterations/s", done / seconds),
                Rate::None => Ok(()),
            };
        }
        let left = task.batches().saturating_sub(task.batch());
        if self.config.eta && left > 0 && done > 0.0 {
            let _ = write!(text, "  eta {}", clock(seconds / done * left as f64));
        }
        if let (true, Some(left)) = (self.config.total_eta, task.remaining()) {
            let _ = write!(text, "  total eta {}", clock(left.as_secs_f64()));
        }
        text
    }
}

/// Seconds as `h:mm:ss`.
fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours}:{minutes:02}:{:02}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn times_read_as_a_clock() {
        assert_eq!(super::clock(59.6), "0:01:00");
        assert_eq!(super::clock(90_061.0), "25:01:01");
    }

    #[test]
    fn without_a_terminal_there_are_plain_lines() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new()
            .epochs(1)
            .test(1)
            .loss(|at| match at.phase {
                Phase::Train => 8.0 / 2.0_f64.powi(at.batch as i32),
                _ => 0.5,
            })
            .metric(Phase::Val, "accuracy", |_epoch| 0.25);
        let config = |lines: u64| {
            json!({
                "plain_lines": lines, "rate": "none", "eta": false, "window": 2, "digits": 2,
                "metrics": ["loss", "accuracy"],
            })
        };
        let seen = run.drive::<Progress>(config(2))?;
        let lines: Vec<_> = seen
            .messages()
            .iter()
            .map(|message| &*message.text)
            .collect();
        assert_eq!(
            lines,
            [
                "epoch 1/1 train 2/4  loss 6.00",
                "epoch 1/1 train 4/4  loss 1.50",
                "epoch 1/1 val 1/2  loss 0.50  accuracy 0.25",
                "epoch 1/1 val 2/2  loss 0.50  accuracy 0.25",
                "test 1/1  loss 0.50",
            ]
        );
        assert_eq!(run.drive::<Progress>(config(0))?.messages(), []);
        Ok(())
    }
}
