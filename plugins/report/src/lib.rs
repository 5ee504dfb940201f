//! The `report` hook: one HTML page on the whole run, readable during training.
//!
//! `{"hook": "report", "config": {"iterations": 10}}` writes `report.html` into the run's
//! directory: the state of the run, the best values, curves of all metrics and learning rates,
//! confusion matrices, how the time was spent, the events, the model, the manifest and the machine.
//!
//! The page is self-contained (SVG charts, one style sheet) and makes no network requests. It is
//! written under a temporary name and renamed, so that readers always see a complete page. Its data
//! are this hook's state: a resumed run continues the curves.

#![forbid(unsafe_code)]

mod config;
mod confusion;
mod curves;
mod ending;
mod environment;
mod history;
mod html;
mod json;
mod page;
mod tables;

use std::path::PathBuf;

use sconce_plugin_api::prelude::*;
use serde_json::Value;

use config::Config;
use confusion::Matrix;
use ending::Ending;
use environment::Environment;
use history::{EpochPass, Event, History};
use page::{Page, Standing};

struct Report {
    config: Config,
    path: PathBuf,
    /// The directory of the run's checkpoints.
    checkpoints: PathBuf,
    /// The run's manifest; null if the page is not to show it.
    manifest: Value,
    environment: Environment,
    facts: TaskFacts,
    history: History,
    /// Confusion matrix of the current pass.
    matrix: Matrix,
    /// Whether batches are suitable for a confusion matrix, known once one has been seen.
    is_classifying: Option<bool>,
}

impl Report {
    /// Progress of training in epochs, including fractions.
    fn place(&self, task: &TaskView<'_>) -> f64 {
        let place = self.history.pass.place(task.iteration());
        place.unwrap_or(task.epoch() as f64)
    }

    fn tell(&mut self, task: &TaskView<'_>, kind: &str, text: String) {
        self.history.events.push(Event {
            epoch: task.epoch(),
            iteration: task.iteration(),
            seconds: task.elapsed().as_secs_f64(),
            kind: kind.to_owned(),
            text,
        });
    }

    /// Writes the page.
    fn write(
        &mut self,
        task: &TaskView<'_>,
        standing: &Standing<'_>,
        ending: &Ending,
    ) -> Result<()> {
        let checkpoints = &self.checkpoints;
        let is_there = |tag: &str| !tag.contains('/') && checkpoints.join(tag).is_dir();
        self.history.keep_checkpoints(is_there);
        let page = Page {
            config: &self.config,
            facts: &self.facts,
            manifest: &self.manifest,
            environment: &self.environment,
            history: &self.history,
            standing,
            ending,
            epoch: task.epoch(),
            epochs: task.epochs(),
            iteration: task.iteration(),
            update: task.update(),
            samples: task.samples(),
            elapsed: task.elapsed(),
            remaining: task.remaining(),
        };
        write_atomically(&self.path, page.html()?)
    }
}

#[hook(
    name = "report",
    about = "Writes one HTML page of the whole run, readable while it trains.",
    priority = LOWER,
    state = history,
    optional = [loss, outputs, targets]
)]
impl Hook for Report {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        if config.iterations == 0 {
            setup.leave_out(Point::AfterIter);
        }
        if !config.confusion {
            setup.leave_out(Point::AfterLoss);
        }
        let manifest = setup.manifest()?;
        Ok(Report {
            path: setup.path_below("file", &config.file)?,
            checkpoints: setup.run_directory().join("checkpoints"),
            environment: Environment::of(setup, &manifest),
            manifest: if config.manifest {
                json::without_secrets(manifest)
            } else {
                Value::Null
            },
            config,
            facts: TaskFacts::default(),
            history: History::default(),
            matrix: Matrix::default(),
            is_classifying: None,
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.facts = task.facts()?;
        if task.resumed().is_some() {
            // The page of the earlier part of the run stays until its curves are restored.
            return Ok(());
        }
        self.write(task, &Standing::Running, &Ending::default())
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        self.matrix.counts.fill(0);
        if task.phase() == Phase::Train {
            self.history.pass = EpochPass {
                epoch: task.epoch(),
                iteration: task.iteration(),
                iterations: task.batches(),
            };
            let at = self.place(task);
            // An epoch begun before a resume or a roll back, which is reopened with the counters of its
            // start, has its learning rates already.
            if self.config.iterations == 0 && !self.history.has_rates_at(at) {
                for group in task.groups() {
                    self.history.add_rate(group.name, at, group.learning_rate);
                }
            }
        }
        Ok(())
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        if task.phase() == Phase::Train || self.is_classifying == Some(false) {
            return Ok(());
        }
        let counted = self.matrix.add(task, self.config.most_classes)?;
        self.is_classifying = Some(counted);
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let every = self.config.iterations;
        let number = task.iteration();
        if task.phase() != Phase::Train || every == 0 || !number.is_multiple_of(every) {
            return Ok(());
        }
        if self.history.keeps(number / every) {
            let at = self.place(task);
            if let Some(loss) = task.loss() {
                self.history.add_loss(at, loss);
            }
            for group in task.groups() {
                self.history.add_rate(group.name, at, group.learning_rate);
            }
            self.history.thin();
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        let (phase, at) = (task.phase(), self.place(task));
        for (name, value) in task.metrics_of(phase) {
            if self.config.shows(name) {
                self.history.add_metric(phase, name, at, value);
            }
        }
        if phase != Phase::Train && self.matrix.total() > 0 {
            self.history.set_matrix(phase, self.matrix.clone());
        }
        Ok(())
    }

    fn epoch_profile(
        &mut self,
        task: &mut AtEpochProfile<'_>,
        profile: &EpochProfile<'_>,
    ) -> Result<()> {
        self.history.add_times(task.phase(), *profile);
        Ok(())
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        if task.epoch().is_multiple_of(self.config.every) {
            return self.write(task, &Standing::Running, &Ending::default());
        }
        Ok(())
    }

    fn after_save_checkpoint(
        &mut self,
        task: &mut AfterSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let (tag, by) = (checkpoint.tag, checkpoint.asked_by);
        let text = match checkpoint.error {
            Some(error) => format!("`{tag}` is not saved: {error}"),
            None if by.is_empty() => format!("`{tag}`, {}", html::bytes(checkpoint.bytes)),
            None => format!("`{tag}`, {}, by `{by}`", html::bytes(checkpoint.bytes)),
        };
        let kind = if checkpoint.error.is_some() {
            "error"
        } else {
            "checkpoint"
        };
        self.tell(task, kind, text);
        Ok(())
    }

    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let tag = checkpoint.tag;
        let text = if checkpoint.asked_by.is_empty() {
            format!("the run resumes from `{tag}`")
        } else {
            format!("back to `{tag}`, by `{}`", checkpoint.asked_by)
        };
        self.tell(task, "back", text);
        Ok(())
    }

    fn on_exception(&mut self, task: &mut OnException<'_>, failure: &Failure<'_>) -> Result<()> {
        self.tell(task, "error", failure.message.to_owned());
        Ok(())
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, outcome: &Outcome<'_>) -> Result<()> {
        let standing = Standing::of(outcome);
        self.tell(task, "end", standing.sentence());
        self.write(task, &standing, &Ending::read(task)?)
    }

    fn state_restored(&mut self) -> Result<()> {
        self.history.check()
    }
}

export_plugin!(Report);

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    /// Two epochs of four batches of two samples in two classes.
    fn run() -> ScriptedRun {
        ScriptedRun::new()
            .epochs(2)
            .targets(|_batch| vec![0, 1])
            .outputs(|_batch| vec![1.0, 0.0, 1.0, 0.0])
            .metric(Phase::Train, "loss", |epoch| 1.0 / epoch as f64)
            .metric(Phase::Val, "accuracy", |epoch| 0.25 * epoch as f64)
            .metric(Phase::Val, "f1", |_epoch| 0.5)
    }

    #[test]
    fn the_curves_the_matrices_and_the_events_are_those_of_the_run()
    -> std::result::Result<(), Failed> {
        let config = json!({"iterations": 2, "metrics": ["loss", "accuracy"]});
        let seen = run().drive::<Report>(config)?;
        let history = &seen.state_as::<Value>().unwrap()["history"];
        let curves = history["metrics"].as_array().unwrap().iter();
        let curves = curves.map(|curve| (&curve["phase"], &curve["name"], &curve["points"]));
        let curves: Vec<_> = curves.collect();
        assert_eq!(
            curves[0],
            (
                &json!("train"),
                &json!("loss"),
                &json!([[1.0, 1.0], [2.0, 0.5]])
            )
        );
        assert_eq!(
            curves[2],
            (
                &json!("val"),
                &json!("accuracy"),
                &json!([[1.0, 0.25], [2.0, 0.5]])
            )
        );
        assert_eq!(curves.len(), 3);
        let rates = json!([[0.5, 0.1], [1.0, 0.1], [1.5, 0.1], [2.0, 0.1]]);
        assert_eq!(history["rates"][0]["points"], rates);
        assert_eq!(history["matrices"][0][0], "val");
        assert_eq!(history["matrices"][0][1]["counts"], json!([2, 0, 2, 0]));
        assert_eq!(history["events"][0]["kind"], "end");
        let page = seen.file("report.html").unwrap();
        assert!(page.starts_with("<!doctype html>"), "{}", &page[..40]);
        assert!(
            page.contains("accuracy") && page.contains("scripted"),
            "{page}"
        );
        Ok(())
    }

    #[test]
    fn events_tell_of_checkpoints_and_of_what_went_wrong() -> std::result::Result<(), Failed> {
        let config = json!({"file": "page/run.html"});
        let seen = run()
            .interrupt_after(5)
            .fails_in(6, "no more <memory>")
            .drive::<Report>(config)?;
        let history = &seen.state_as::<Value>().unwrap()["history"];
        let events = history["events"].as_array().unwrap().iter();
        let events: Vec<_> = events
            .map(|event| (event["kind"].as_str(), event["iteration"].as_u64()))
            .collect();
        assert_eq!(
            events,
            [
                (Some("back"), Some(5)),
                (Some("error"), Some(6)),
                (Some("end"), Some(6))
            ]
        );
        // Of an epoch that a resume reopens, the rates are there once.
        let rates = json!([[0.0, 0.1], [1.0, 0.1]]);
        assert_eq!(history["rates"][0]["points"], rates);
        let page = seen.file("page/run.html").unwrap();
        assert!(page.contains("no more &lt;memory&gt;"), "{page}");
        Ok(())
    }
}
