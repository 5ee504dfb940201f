//! The `training-trace` hook: one JSON file with the state of the run: when it began, its progress,
//! its best metrics, why it ended. The file is replaced atomically each time, so that a killed run
//! leaves the last complete one.

mod clock;
mod record;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use record::{ResumedFrom, Status, ThisProcess, Trace};
use sconce_plugin_api::abi::API_VERSION;
use sconce_plugin_api::prelude::*;
use serde_json::{Value, json};

/// Where the trace is written, and how often.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The file, under the run's directory. Default `training-trace.json`.
    file: PathBuf,
    /// Write after every this many epochs, at least 1, besides at the start and end of the run.
    /// Default 1.
    #[schemars(range(min = 1))]
    every: u64,
    /// Also write after every this many iterations. 0: not within epochs. Default 0.
    every_iterations: u64,
    /// The metrics whose best value is kept, of validation unless prefixed: `accuracy`,
    /// `train/loss`. Default: all of validation (without one, of training) whose names imply which
    /// value is better.
    best: Option<Vec<Monitor>>,
    /// Additional information for readers of the file: any text under any name, stored under
    /// `notes`. Default: none.
    notes: BTreeMap<String, String>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            file: "training-trace.json".into(),
            every: 1,
            every_iterations: 0,
            best: None,
            notes: BTreeMap::new(),
        }
    }
}

/// State of the hook between calls.
pub(crate) struct TrainingTrace {
    config: Config,
    path: PathBuf,
    trace: Trace,
    /// Whether a checkpoint loaded now is the one that the run resumes from.
    is_resuming: bool,
    /// The exit status if the run fails.
    failed_as: u8,
}

/// Exit statuses of the host, see `docs/faults.md`.
const HOOK_FAILED: u8 = 4;
const TRAINING_FAILED: u8 = 7;
const HUNG_UP: u8 = 129;
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

#[hook(
    name = "training-trace",
    about = "Keeps one JSON file on how the run stands: times, progress, best metrics, why it ended.",
    priority = LOWEST,
    state = trace.best
)]
impl Hook for TrainingTrace {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        for monitor in config.best.iter().flatten() {
            if sconce_plugin_api::Rule::of_metric(monitor.name()).is_none() {
                bail!("`best` names `{monitor}`, whose name doesn't say which value is better");
            }
        }
        let path = setup.path_below("file", &config.file)?;
        let manifest = setup.manifest()?;
        let now = clock::now();
        let mut trace = Trace {
            run: manifest["name"].as_str().unwrap_or_default().to_owned(),
            seed: setup.seed(),
            begin: now.clone(),
            this_process: ThisProcess {
                process: std::process::id(),
                process_begin: now,
            },
            hooks: hooks(&manifest),
            ..Trace::default()
        };
        for (name, version) in [
            ("host", setup.host_version()),
            ("plugin_api", API_VERSION),
            ("plugin", env!("CARGO_PKG_VERSION")),
        ] {
            trace.versions.insert(name.to_owned(), version.to_owned());
        }
        // An unreadable trace is from another version; the run continues without it.
        let earlier: Option<Trace> = setup
            .is_resumed()
            .then(|| serde_json::from_slice(&fs::read(&path).ok()?).ok())
            .flatten();
        if let Some(earlier) = earlier {
            trace.begin.clone_from(&earlier.begin);
            trace.checkpoints = earlier.checkpoints.clone();
            trace.roll_backs = earlier.roll_backs;
            trace.earlier = earlier.into_earlier();
        }
        Ok(TrainingTrace {
            config,
            path,
            trace,
            is_resuming: setup.is_resumed(),
            failed_as: TRAINING_FAILED,
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.write(task)
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let every = self.config.every_iterations;
        let is_due = every > 0 && task.iteration().is_multiple_of(every);
        if is_due && task.phase() == Phase::Train {
            return self.write(task);
        }
        Ok(())
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        self.trace.take_best(task, self.config.best.as_deref());
        if task.epoch().is_multiple_of(self.config.every) {
            return self.write(task);
        }
        Ok(())
    }

    fn after_save_checkpoint(
        &mut self,
        _task: &mut AfterSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        if checkpoint.error.is_none() {
            self.trace.checkpoints.saved += 1;
            self.trace.checkpoints.last = Some(checkpoint.tag.to_owned());
        }
        Ok(())
    }

    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        if std::mem::take(&mut self.is_resuming) {
            self.trace.resumed_from = Some(ResumedFrom {
                checkpoint: checkpoint.tag.to_owned(),
                epoch: task.epoch(),
                iteration: task.iteration(),
            });
        } else {
            self.trace.roll_backs += 1;
        }
        self.write(task)
    }

    fn on_exception(&mut self, _task: &mut OnException<'_>, failure: &Failure<'_>) -> Result<()> {
        if matches!(failure.origin, Origin::Hook(_)) {
            self.failed_as = HOOK_FAILED;
        }
        Ok(())
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, outcome: &Outcome<'_>) -> Result<()> {
        let (status, reason, exit_status) = match *outcome {
            Outcome::Completed => (Status::Completed, None, 0),
            Outcome::Stopped { reason } => (Status::Stopped, Some(reason), 0),
            Outcome::Interrupted { signal: "SIGINT" } => {
                (Status::Interrupted, Some("SIGINT"), INTERRUPTED)
            }
            Outcome::Interrupted { signal: "SIGHUP" } => {
                (Status::Interrupted, Some("SIGHUP"), HUNG_UP)
            }
            Outcome::Interrupted { signal } => (Status::Interrupted, Some(signal), TERMINATED),
            Outcome::Failed { error } => (Status::Failed, Some(error), self.failed_as),
            _ => (Status::Failed, None, self.failed_as),
        };
        self.trace.status = status;
        self.trace.reason = reason.map(str::to_owned);
        self.trace.exit_status = Some(exit_status);
        self.trace.end = Some(clock::now());
        self.write(task)
    }
}

impl TrainingTrace {
    /// Replaces the trace file atomically.
    fn write(&mut self, task: &TaskView<'_>) -> Result<()> {
        self.trace.take_place(task);
        self.trace.updated = clock::now();
        let mut json = serde_json::to_value(&self.trace)?;
        if let (false, Some(object)) = (self.config.notes.is_empty(), json.as_object_mut()) {
            object.insert("notes".to_owned(), json!(self.config.notes));
        }
        let text = format!("{json:#}\n");
        write_atomically(&self.path, text)
    }
}

/// The hooks that a manifest lists, without their configs.
fn hooks(manifest: &Value) -> Vec<Value> {
    let entries = manifest["hooks"].as_array().into_iter().flatten();
    let entry = |entry: &Value| match entry {
        Value::String(hook) => json!({"hook": hook}),
        other => match other.get("name") {
            Some(name) if !name.is_null() => json!({"hook": other["hook"], "name": name}),
            _ => json!({"hook": other["hook"]}),
        },
    };
    entries.map(entry).collect()
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun, Seen};

    use super::*;

    fn trace(seen: &Seen) -> Value {
        let text = seen.file("training-trace.json").unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_file_tells_how_far_a_run_came_and_what_was_best() -> std::result::Result<(), Failed> {
        let accuracies = [0.5, 0.75, 0.25];
        let run = ScriptedRun::new()
            .metric(Phase::Val, "loss", |epoch| 1.0 / epoch as f64)
            .metric(Phase::Val, "accuracy", move |epoch| {
                accuracies[epoch as usize - 1]
            })
            .interrupt_after(5);
        let seen = run.drive::<TrainingTrace>(json!({"notes": {"why": "a test"}}))?;
        let trace = trace(&seen);
        for (key, expected) in [
            ("/status", json!("completed")),
            ("/reason", Value::Null),
            ("/exit_status", json!(0)),
            ("/epochs", json!({"done": 3, "asked": 3})),
            ("/iterations", json!(12)),
            ("/samples", json!(24)),
            ("/seconds", json!(12.0)),
            (
                "/best/val~1accuracy",
                json!({"value": 0.75, "epoch": 2, "rule": "greater"}),
            ),
            ("/best/val~1loss/epoch", json!(3)),
            ("/metrics/val/accuracy", json!(0.25)),
            ("/checkpoints", json!({"saved": 1, "last": "interrupted"})),
            (
                "/resumed_from",
                json!({"checkpoint": "interrupted", "epoch": 1, "iteration": 5}),
            ),
            ("/roll_backs", json!(0)),
            ("/earlier/0/status", json!("interrupted")),
            ("/earlier/0/reason", json!("SIGINT")),
            ("/earlier/0/iterations", json!(5)),
            ("/notes/why", json!("a test")),
        ] {
            assert_eq!(trace.pointer(key), Some(&expected), "{key}");
        }
        Ok(())
    }

    #[test]
    fn the_file_tells_why_a_run_failed() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new().fails_in(5, "no more memory");
        let seen = run.drive::<TrainingTrace>(json!({"best": ["train/loss"]}))?;
        let trace = trace(&seen);
        let told = (&trace["status"], &trace["reason"], &trace["exit_status"]);
        assert_eq!(
            told,
            (&json!("failed"), &json!("no more memory"), &json!(7))
        );
        assert_eq!(trace["best"]["train/loss"]["epoch"], 1);
        let failed = run
            .drive::<TrainingTrace>(json!({"best": ["width"]}))
            .unwrap_err();
        assert_eq!(
            failed.message,
            "`best` names `width`, whose name doesn't say which value is better"
        );
        Ok(())
    }
}
