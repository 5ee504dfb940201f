//! The runs below the directory. A run is read again when one of its files has changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sconce_plugin_api::Rule;
use serde_json::Value;

use super::inside::{Inside, Stamp};
use super::secrets;
use crate::cli::past_runs::past_run::PastRun;
use crate::cli::past_runs::runs::DEPTH;
use crate::manifest::json_path;
use crate::session;

/// Files of a run whose changes are noticed. With its manifest, any of them makes a directory that of a run.
const FILES: [&str; 7] = [
    "manifest.json",
    "run.json",
    "run.lock",
    "train.csv",
    "val.csv",
    "test.csv",
    "crash.json",
];

/// The runs, as they were when they were looked at last.
pub(super) struct Collection {
    inside: Inside,
    /// By their paths below the directory, with `/` between parts.
    runs: BTreeMap<String, Run>,
    sweeps: BTreeMap<String, Sweep>,
    version: u64,
}

/// What the table has of a run.
pub(super) struct Run {
    stamps: [Option<Stamp>; FILES.len()],
    pub(super) name: String,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) epochs: u64,
    /// Number of epochs that the manifest asks for.
    pub(super) planned: Option<u64>,
    pub(super) seconds: Option<f64>,
    /// By phase and name, such as `val/loss`.
    pub(super) metrics: BTreeMap<String, Values>,
    /// The manifest's values by their paths, without secrets.
    pub(super) manifest: BTreeMap<String, Value>,
}

/// A metric of a run.
pub(super) struct Values {
    pub(super) last: f64,
    /// The best value so far and its epoch, of a metric whose name says which is better.
    pub(super) best: Option<(f64, Option<u64>)>,
}

/// A directory of `sconce sweep`.
#[derive(PartialEq, Eq)]
pub(super) struct Sweep {
    /// By what its trials are compared, once it has a table.
    pub(super) metric: Option<String>,
}

impl Collection {
    /// Reads the runs below a directory.
    pub(super) fn of(inside: Inside) -> Collection {
        let mut collection = Collection {
            inside,
            runs: BTreeMap::new(),
            sweeps: BTreeMap::new(),
            version: 0,
        };
        collection.refresh();
        collection
    }

    pub(super) fn inside(&self) -> &Inside {
        &self.inside
    }

    pub(super) fn runs(&self) -> &BTreeMap<String, Run> {
        &self.runs
    }

    pub(super) fn sweeps(&self) -> &BTreeMap<String, Sweep> {
        &self.sweeps
    }

    /// Number of runs.
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Number of changes that were noticed.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// All that a run's directory records.
    pub(super) fn read(&self, run: &str) -> Option<PastRun> {
        let path = self.inside.path().join(run);
        PastRun::read_by(&path, &|path| self.inside.file_at(path))
    }

    /// Looks for runs that are new, changed or gone.
    pub(super) fn refresh(&mut self) {
        let mut found = Found::default();
        self.search("", DEPTH, &mut found);
        let mut changed = self.runs.len();
        self.runs.retain(|path, _| found.runs.contains_key(path));
        changed -= self.runs.len();
        for (path, stamps) in found.runs {
            let known = self.runs.get(&path);
            if known
                .is_some_and(|run| run.stamps == stamps && !self.has_ended_otherwise(&path, run))
            {
                continue;
            }
            let read = self.read(&path);
            let gone = read.is_none() && self.runs.remove(&path).is_some();
            changed += usize::from(gone || read.is_some());
            self.runs
                .extend(read.map(|read| (path, Run::of(&read, stamps))));
        }
        if self.sweeps != found.sweeps {
            self.sweeps = found.sweeps;
            changed += 1;
        }
        self.version += u64::from(changed > 0);
    }

    /// Whether a run's process is no longer there, or there again, which no file says.
    fn has_ended_otherwise(&self, path: &str, run: &Run) -> bool {
        let is_running = run.state == "running";
        let may_change = is_running || run.state == "broken off";
        may_change && session::is_in_use(&self.inside.path().join(path)) != is_running
    }

    fn search(&self, directory: &str, depth: usize, found: &mut Found) {
        let Ok(entries) = self.inside.entries(Path::new(directory)) else {
            return;
        };
        let has = |name: &str| {
            let mut files = entries.iter().filter(|entry| !entry.is_directory);
            files.any(|file| file.name == name)
        };
        let [manifest, others @ ..] = FILES;
        if has(manifest) && others.into_iter().any(has) {
            let stamps = self.inside.stamps(Path::new(directory), FILES);
            found.runs.insert(directory.to_owned(), stamps);
            return;
        }
        if has("trials.jsonl") {
            let metric = self.metric_of_sweep(directory);
            found.sweeps.insert(directory.to_owned(), Sweep { metric });
        }
        for entry in entries
            .iter()
            .filter(|entry| entry.is_directory && depth > 0)
        {
            let below = match directory {
                "" => entry.name.clone(),
                above => format!("{above}/{}", entry.name),
            };
            self.search(&below, depth - 1, found);
        }
    }

    /// The heading of the fourth column in a sweep's table.
    fn metric_of_sweep(&self, directory: &str) -> Option<String> {
        let table = PathBuf::from(directory).join("results.csv");
        let mut reader = csv::Reader::from_reader(self.inside.file(&table).ok()?);
        reader.headers().ok()?.get(3).map(str::to_owned)
    }
}

#[derive(Default)]
struct Found {
    runs: BTreeMap<String, [Option<Stamp>; FILES.len()]>,
    sweeps: BTreeMap<String, Sweep>,
}

impl Run {
    fn of(run: &PastRun, stamps: [Option<Stamp>; FILES.len()]) -> Run {
        let reason = run.record.get("reason").and_then(Value::as_str);
        let planned = run.manifest.pointer("/train/epochs");
        Run {
            stamps,
            name: run.name().to_owned(),
            state: run.state.clone(),
            reason: reason.map(str::to_owned),
            epochs: run.epochs(),
            planned: planned.and_then(Value::as_u64),
            seconds: run.record.get("seconds").and_then(Value::as_f64),
            metrics: metrics(run),
            manifest: manifest(run),
        }
    }

    /// When the run was begun, in seconds since 1970, by the time at which its manifest was written.
    pub(super) fn begun(&self) -> Option<i64> {
        let [manifest, ..] = self.stamps;
        manifest.map(|stamp| stamp.seconds)
    }
}

/// A run's manifest by the paths of its values, without secrets.
pub(super) fn manifest(run: &PastRun) -> BTreeMap<String, Value> {
    let leaves = json_path::leaves(&run.manifest).into_iter();
    leaves
        .map(|(path, value)| {
            let shown = secrets::shown(&path, value);
            (path, shown)
        })
        .collect()
}

fn metrics(run: &PastRun) -> BTreeMap<String, Values> {
    let mut last = run.metrics();
    last.extend(run.last());
    for (phase, rows) in &run.curves {
        for row in rows {
            let values = row.metrics.iter();
            last.extend(values.map(|(name, value)| (format!("{phase}/{name}"), *value)));
        }
    }
    // Elements of tables, such as `val/confusion/3/5`, are too many for columns.
    last.retain(|name, _| name.matches('/').count() == 1);
    last.into_iter()
        .map(|(name, last)| {
            let best = run.best(&name);
            (name, Values { last, best })
        })
        .collect()
}

/// Which values of a metric are better, if its name says so.
pub(super) fn goal(metric: &str) -> Option<Rule> {
    Rule::of_metric(metric.split_once('/')?.1)
}
