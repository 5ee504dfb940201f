//! The `jsonl` hook: a JSON object per line, at intervals of iterations and at the end of each
//! pass.
//!
//! ```text
//! {"event":"interval","phase":"train","epoch":0,"iteration":50,"update":50,"samples":3200,"learning_rate":0.001,"loss":1.2032,"accuracy":0.6428}
//! {"event":"epoch","phase":"val","epoch":1,"iteration":141,"update":141,"samples":9000,"learning_rate":0.001,"loss":0.5127,"accuracy":0.8561}
//! ```
//!
//! The counters count what is finished, as everywhere. Equal runs write equal files unless times
//! are requested; so do a run that was stopped and resumed and one that was not.

mod config;
mod object;

use std::collections::BTreeMap;
use std::time::Duration;

use config::{Config, Field};
use object::Object;
use sconce_plugin_api::prelude::*;

use crate::window::Window;

/// State of the hook between calls.
pub(crate) struct JsonLines {
    config: Config,
    lines: LogFile,
    epochs: Option<LogFile>,
    losses: Window,
    object: Object,
    /// Samples since the last interval's line, and since the pass began.
    interval: Meter,
    pass: Meter,
    has_speed: bool,
}

/// Number of samples since a point in time.
#[derive(Clone, Copy, Default)]
struct Meter {
    since: Duration,
    samples: u64,
}

impl Meter {
    fn speed(&self, now: Duration) -> Option<f64> {
        let seconds = now.saturating_sub(self.since).as_secs_f64();
        (seconds > 0.0).then(|| self.samples as f64 / seconds)
    }
}

#[hook(
    name = "jsonl",
    about = "Writes losses and metrics as JSON, a line every n iterations and one per epoch.",
    priority = LOW,
    state = [losses, lines, epochs],
    reads = groups,
    optional = loss
)]
impl Hook for JsonLines {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let lines = LogFile::new(setup.path_below("file", &config.file)?);
        let epochs = match &config.epochs_file {
            Some(file) if *file == config.file => {
                bail!(
                    "`epochs_file` and `file` are the same: `{}`",
                    file.display()
                )
            }
            Some(file) => Some(LogFile::new(setup.path_below("epochs_file", file)?)),
            None => None,
        };
        Ok(JsonLines {
            lines,
            epochs,
            losses: Window::new(config.window),
            object: Object::new(&config),
            interval: Meter::default(),
            pass: Meter::default(),
            has_speed: config.fields.contains(&Field::Speed),
            config,
        })
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        if self.has_speed {
            self.pass = Meter {
                since: task.elapsed(),
                samples: 0,
            };
            if task.phase() == Phase::Train {
                self.interval = self.pass;
            }
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        self.pass.samples += task.batch_size();
        if task.phase() != Phase::Train {
            return Ok(());
        }
        self.interval.samples += task.batch_size();
        if let Some(loss) = task.loss() {
            self.losses.push(loss);
        }
        if !self
            .config
            .is_due(task.iteration(), task.batch(), task.batches())
        {
            return Ok(());
        }
        let loss = self.losses.value(self.config.smoothing);
        let speed = self.measure(self.interval, task);
        self.fill(task, "interval", loss, speed);
        if self.has_speed {
            self.interval = Meter {
                since: task.elapsed(),
                samples: 0,
            };
        }
        write(&mut self.lines, self.object.line(), self.config.fsync)
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        if !self.config.by_epoch {
            return Ok(());
        }
        let speed = self.measure(self.pass, task);
        self.fill(task, "epoch", task.metric("loss"), speed);
        let log = self.epochs.as_mut().unwrap_or(&mut self.lines);
        write(log, self.object.line(), self.config.fsync)
    }
}

impl JsonLines {
    fn measure(&self, meter: Meter, task: &TaskView<'_>) -> Option<f64> {
        self.has_speed
            .then(|| meter.speed(task.elapsed()))
            .flatten()
    }

    /// Builds the line for the current state.
    fn fill(&mut self, task: &TaskView<'_>, event: &str, loss: Option<f64>, speed: Option<f64>) {
        let object = &mut self.object;
        let phase = task.phase();
        object.clear();
        object.add("event", &event);
        object.add("phase", &phase.name());
        if task.stream() != phase.name() {
            object.add("stream", &task.stream());
        }
        if event == "epoch" && !task.is_whole() {
            // The epoch was cut short by a stop.
            object.add("whole", &false);
        }
        for &field in &self.config.fields {
            match field {
                Field::Epoch => object.add("epoch", &task.epoch()),
                Field::Iteration => object.add("iteration", &task.iteration()),
                Field::Update => object.add("update", &task.update()),
                Field::Samples => object.add("samples", &task.samples()),
                Field::Batch => object.add("batch", &task.batch()),
                Field::LearningRate => object.number("learning_rate", task.learning_rate()),
                Field::LearningRates => {
                    let rates: BTreeMap<_, _> = task
                        .groups()
                        .map(|group| (group.name, object.rounded(group.learning_rate)))
                        .collect();
                    object.add("learning_rates", &rates);
                }
                Field::Loss => number(object, "loss", loss),
                Field::Metrics => {
                    for (name, value) in task.metrics_of(phase) {
                        if self.config.has_metric(name) {
                            object.number(name, value);
                        }
                    }
                }
                Field::Elapsed => object.number("elapsed", task.elapsed().as_secs_f64()),
                Field::Remaining => {
                    number(
                        object,
                        "remaining",
                        task.remaining().map(|t| t.as_secs_f64()),
                    );
                }
                Field::Speed => number(object, "speed", speed),
            }
        }
    }
}

fn number(object: &mut Object, key: &str, value: Option<f64>) {
    if let Some(value) = value {
        object.number(key, value);
    }
}

/// Writes a line through to the system, or with `fsync` to the disk.
fn write(log: &mut LogFile, line: &[u8], fsync: bool) -> Result<()> {
    log.write(line)?;
    if fsync {
        log.save()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    /// Losses of 8, 4, 2 and 1 in each epoch of four batches of two samples.
    fn run(epochs: u64) -> ScriptedRun {
        ScriptedRun::new()
            .epochs(epochs)
            .group("fc2", 0.5)
            .seconds_per_iteration(0.5)
            .loss(|at| match at.phase {
                Phase::Train => 8.0 / 2.0_f64.powi(at.batch as i32),
                _ => 0.5,
            })
            .metric(Phase::Val, "accuracy", |epoch| 0.25 * epoch as f64)
    }

    #[test]
    fn intervals_and_epochs_have_their_lines() -> std::result::Result<(), Failed> {
        let config = json!({"interval": 2, "window": 2});
        let expected = [
            r#"{"event":"interval","phase":"train","epoch":0,"iteration":2,"update":2,"samples":4,"learning_rate":0.1,"loss":6.0}"#,
            r#"{"event":"interval","phase":"train","epoch":0,"iteration":4,"update":4,"samples":8,"learning_rate":0.1,"loss":1.5}"#,
            r#"{"event":"epoch","phase":"train","epoch":1,"iteration":4,"update":4,"samples":8,"learning_rate":0.1,"loss":3.75}"#,
            r#"{"event":"epoch","phase":"val","epoch":1,"iteration":4,"update":4,"samples":8,"learning_rate":0.1,"loss":0.5,"accuracy":0.25}"#,
        ];
        let seen = run(1).drive::<JsonLines>(config.clone())?;
        let text = seen.file("log.jsonl").unwrap();
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        // A resumed run continues the file and its window.
        let resumed = run(1).interrupt_after(3).drive::<JsonLines>(config)?;
        assert_eq!(resumed.file("log.jsonl").unwrap(), text);
        Ok(())
    }

    #[test]
    fn chosen_fields_go_into_the_chosen_files() -> std::result::Result<(), Failed> {
        let config = json!({
            "file": "logs/steps.jsonl", "epochs_file": "logs/epochs.jsonl", "interval": 4,
            "smoothing": "last", "metrics": ["f1"],
            "fields": ["batch", "learning_rates", "loss", "metrics", "elapsed", "remaining", "speed"],
        });
        let seen = run(1).drive::<JsonLines>(config)?;
        let rates = r#""learning_rates":{"default":0.1,"fc2":0.05}"#;
        assert_eq!(
            seen.file("logs/steps.jsonl").unwrap(),
            format!(
                "{{\"event\":\"interval\",\"phase\":\"train\",\"batch\":4,{rates},\"loss\":1.0,\
             \"elapsed\":2.0,\"remaining\":0.0,\"speed\":4.0}}\n"
            )
        );
        let epochs = seen.file("logs/epochs.jsonl").unwrap();
        assert_eq!(
            epochs.lines().nth(1),
            Some(
                format!(
                    "{{\"event\":\"epoch\",\"phase\":\"val\",\"batch\":2,{rates},\"loss\":0.5,\
                 \"elapsed\":2.0,\"remaining\":0.0}}"
                )
                .as_str()
            )
        );
        let same = json!({"file": "a.jsonl", "epochs_file": "a.jsonl"});
        let failed = run(1).drive::<JsonLines>(same).unwrap_err();
        assert_eq!(
            failed.message,
            "`epochs_file` and `file` are the same: `a.jsonl`"
        );
        Ok(())
    }
}
