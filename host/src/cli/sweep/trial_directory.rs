//! A trial on disk: the directory of an ordinary run, from which all that is known of the trial is read.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::rungs::Reached;
use crate::checkpoint::Store;
use sconce_base::files::write_atomically;
use sconce_base::regular_file::read_regular;

/// A trial on disk.
#[derive(Clone, Debug)]
pub(super) struct TrialDirectory {
    /// The run's directory.
    pub(super) path: PathBuf,
    number: usize,
}

impl TrialDirectory {
    /// That of the trial with this number, from 1.
    pub(super) fn of(sweep: &Path, number: usize) -> TrialDirectory {
        TrialDirectory {
            path: sweep.join(format!("{number:04}")),
            number,
        }
    }

    fn beside(&self, folder: &str) -> PathBuf {
        let parent = self.path.parent().unwrap_or(Path::new(""));
        parent.join(folder).join(format!("{:04}", self.number))
    }

    /// What the trial's processes have printed.
    pub(super) fn log(&self) -> PathBuf {
        self.beside("logs").with_extension("log")
    }

    /// Makes the trial this process's own while the file is open; `None` if it is another's.
    pub(super) fn claim(&self) -> io::Result<Option<File>> {
        let path = self.beside("locks");
        fs_err::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        // On a file system without locks the run's own has to do.
        let is_held = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
        Ok((!is_held).then_some(file))
    }

    /// The record of the run's end, while it is not under way.
    pub(super) fn record(&self) -> Option<Value> {
        json(&self.path.join("run.json"))
    }

    /// What the trial has reached at a rung; `None` if it is not there yet. A trial that has ended before has reached all.
    pub(super) fn reached(&self, rung: usize, until: Option<u64>, metric: &str) -> Option<Reached> {
        let kept = self.path.join(format!("rung-{}.json", rung + 1));
        if until.is_some()
            && let Some(record) = json(&kept)
        {
            return Some(metric_of(&record, metric));
        }
        let record = self.record()?;
        match record["outcome"].as_str()? {
            "completed" | "stopped" => Some(metric_of(&record, metric)),
            "failed" => Some(None),
            "paused" if until.is_some_and(|until| record["epochs"].as_u64() >= Some(until)) => {
                Some(metric_of(&record, metric))
            }
            _ => None,
        }
    }

    /// Keeps the record of a rung, before the run goes on and has another.
    pub(super) fn keep_record(&self, rung: usize) -> io::Result<()> {
        let kept = self.path.join(format!("rung-{}.json", rung + 1));
        let run = self.path.join("run.json");
        if kept.exists() || !run.exists() {
            return Ok(());
        }
        write_atomically(&kept, &fs_err::read(run)?)
    }

    /// Removes its checkpoints.
    pub(super) fn remove_checkpoints(&self) -> io::Result<()> {
        match fs_err::remove_dir_all(Store::of(&self.path).directory()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// A metric of a run's record, such as `val/loss`.
pub(super) fn metric_of(record: &Value, metric: &str) -> Option<f64> {
    let (phase, name) = metric.split_once('/')?;
    record.get("metrics")?.get(phase)?.get(name)?.as_f64()
}

/// Names of the metrics of a run's record.
pub(super) fn metrics_of(record: &Value) -> Vec<String> {
    let phases = record["metrics"].as_object().into_iter().flatten();
    let names = phases.flat_map(|(phase, metrics)| {
        let names = metrics.as_object().into_iter().flatten();
        names.map(move |(name, _)| format!("{phase}/{name}"))
    });
    names
        .filter(|name| name.matches('/').count() == 1)
        .collect()
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&read_regular(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_reached_at_a_rung_stays_when_the_run_goes_on() {
        let place = tempfile::tempdir().expect("a directory");
        let trial = TrialDirectory::of(place.path(), 7);
        fs_err::create_dir(&trial.path).expect("a directory");
        let write = |record: Value| {
            fs_err::write(trial.path.join("run.json"), record.to_string()).expect("written");
        };
        assert_eq!(trial.reached(0, Some(2), "val/loss"), None);
        write(json!({"outcome": "interrupted", "epochs": 2, "metrics": {"val": {"loss": 9.0}}}));
        assert_eq!(trial.reached(0, Some(2), "val/loss"), None);
        write(json!({"outcome": "paused", "epochs": 2, "metrics": {"val": {"loss": 0.5}}}));
        assert_eq!(trial.reached(0, Some(2), "val/loss"), Some(Some(0.5)));
        assert_eq!(trial.reached(1, Some(6), "val/loss"), None);
        trial.keep_record(0).expect("kept");
        write(json!({"outcome": "completed", "epochs": 6, "metrics": {"val": {"loss": 0.25}}}));
        assert_eq!(trial.reached(0, Some(2), "val/loss"), Some(Some(0.5)));
        assert_eq!(trial.reached(1, Some(6), "val/loss"), Some(Some(0.25)));
        write(json!({"outcome": "failed", "metrics": {}}));
        assert_eq!(trial.reached(2, None, "val/loss"), Some(None));
    }

    #[test]
    fn a_trial_is_one_processs_alone() {
        let place = tempfile::tempdir().expect("a directory");
        let trial = TrialDirectory::of(place.path(), 1);
        let claim = trial.claim().expect("a file");
        assert!(claim.is_some() && trial.claim().expect("a file").is_none());
        drop(claim);
        assert!(trial.claim().expect("a file").is_some());
    }
}
