//! A run as recorded in its directory, for `sconce runs`, `sconce compare` and `sconce board`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use sconce_plugin_api::{Rule, spreadsheet};
use serde_json::{Map, Value};

use crate::checkpoint::Store;
use crate::session;
use sconce_base::regular_file::{open_regular, read_more};

/// Metrics of a pass over a phase's data.
type Metrics = BTreeMap<String, f64>;

/// Opens a run's file to read it.
pub(in crate::cli) type Open<'a> = &'a dyn Fn(&Path) -> io::Result<File>;

/// Metrics of a pass over a phase's data, and where the run was when it ended.
#[derive(Debug)]
pub(in crate::cli) struct Row {
    /// The epoch that the pass belongs to, from 1.
    pub(in crate::cli) epoch: u64,
    /// Training iterations until then.
    pub(in crate::cli) iteration: u64,
    pub(in crate::cli) metrics: Metrics,
}

/// A run as recorded in its directory.
#[derive(Debug)]
pub(in crate::cli) struct PastRun {
    /// Its directory.
    pub(in crate::cli) directory: PathBuf,
    /// The manifest, with all defaults.
    pub(in crate::cli) manifest: Value,
    /// Whether it is running, or how it ended.
    pub(in crate::cli) state: String,
    /// Record of its end; empty without one.
    pub(in crate::cli) record: Map<String, Value>,
    /// Tags of its checkpoints.
    pub(super) checkpoints: Vec<String>,
    /// Tag of the last checkpoint.
    pub(super) last_checkpoint: Option<String>,
    /// Metrics of each epoch by phase, if the hook `csv` wrote them.
    pub(in crate::cli) curves: BTreeMap<String, Vec<Row>>,
}

impl PastRun {
    /// Reads a run's directory; `None` if it has no run.
    pub(in crate::cli) fn read(directory: &Path) -> Option<PastRun> {
        let mut run = PastRun::read_by(directory, &open_regular)?;
        let store = Store::of(directory);
        run.checkpoints = store.tags();
        run.last_checkpoint = store.latest();
        Some(run)
    }

    /// Reads a run's directory, except for its checkpoints, by files that `open` opens; `None` if it has no run.
    pub(in crate::cli) fn read_by(directory: &Path, open: Open<'_>) -> Option<PastRun> {
        let manifest = json(&directory.join("manifest.json"), open)?;
        let record = match json(&directory.join("run.json"), open) {
            Some(Value::Object(record)) => record,
            _ => Map::new(),
        };
        let phases = ["train", "val", "test"];
        let curves = phases.into_iter().filter_map(|phase| {
            let file = open(&directory.join(format!("{phase}.csv"))).ok()?;
            Some((phase.to_owned(), curve(file)?))
        });
        Some(PastRun {
            state: state(directory, &record, open),
            checkpoints: Vec::new(),
            last_checkpoint: None,
            curves: curves.collect(),
            directory: directory.to_owned(),
            manifest,
            record,
        })
    }

    /// Name of the run.
    pub(in crate::cli) fn name(&self) -> &str {
        self.manifest["name"].as_str().unwrap_or_default()
    }

    /// Whether it was trained to its end.
    pub(in crate::cli) fn is_complete(&self) -> bool {
        matches!(self.state.as_str(), "completed" | "stopped")
    }

    /// Number of epochs finished, from the record or the rows of the training metrics.
    pub(in crate::cli) fn epochs(&self) -> u64 {
        let recorded = self.record.get("epochs").and_then(Value::as_u64);
        let last = self.curves.get("train").and_then(|rows| rows.last());
        recorded.or(last.map(|row| row.epoch)).unwrap_or(0)
    }

    /// Kind of the loss, such as `cross-entropy`: from the manifest, or inferred from the default metrics;
    /// `None` if unknown.
    pub(in crate::cli) fn loss_kind(&self) -> Option<&str> {
        if let Some(kind) = self.manifest["loss"]["kind"].as_str() {
            return Some(kind);
        }
        let metrics = self.metrics();
        let has = |wanted: &[&str]| {
            let mut names = metrics.keys().filter_map(|name| name.split_once('/'));
            names.any(|(_, name)| wanted.contains(&name))
        };
        if has(&["accuracy", "perplexity"]) {
            return Some("cross-entropy");
        }
        has(&["mae", "rmse"]).then_some("mse")
    }

    /// The weights that the run keeps, if it has ended with any.
    pub(super) fn kept(&self) -> Option<&Map<String, Value>> {
        self.record.get("kept")?.as_object()
    }

    /// The kept weights in words: their epoch, and the checkpoint or the averages that they are.
    pub(in crate::cli) fn kept_in_words(&self) -> Option<String> {
        let kept = self.kept()?;
        let epoch = kept.get("epoch").and_then(Value::as_u64)?;
        let names = ["checkpoint", "set"]
            .into_iter()
            .filter_map(|key| kept.get(key)?.as_str());
        let words = names.fold(format!("epoch {epoch}"), |words, name| {
            format!("{words}, {name}")
        });
        Some(words)
    }

    /// Metrics of each phase, by `phase/metric`: of the weights that are kept; of a run that keeps none, or has not
    /// ended, the last values.
    pub(in crate::cli) fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::new();
        let curves = self.curves.iter().filter(|_| self.kept().is_none());
        for (phase, rows) in curves {
            if let Some(last) = rows.last() {
                metrics.extend(
                    last.metrics
                        .iter()
                        .map(|(name, value)| (format!("{phase}/{name}"), *value)),
                );
            }
        }
        let recorded = self.record.get("metrics").and_then(Value::as_object);
        for (phase, values) in recorded.into_iter().flatten() {
            for (name, value) in values.as_object().into_iter().flatten() {
                if let Some(value) = value.as_f64() {
                    metrics.insert(format!("{phase}/{name}"), value);
                }
            }
        }
        metrics
    }

    /// What was measured last with weights other than those kept, by `phase/metric`.
    pub(in crate::cli) fn last(&self) -> Metrics {
        let mut metrics = Metrics::new();
        let last = self.record.get("last").and_then(Value::as_object);
        for (phase, measured) in last.into_iter().flatten() {
            let values = measured.get("metrics").and_then(Value::as_object);
            for (name, value) in values.into_iter().flatten() {
                metrics.extend(
                    value
                        .as_f64()
                        .map(|value| (format!("{phase}/{name}"), value)),
                );
            }
        }
        metrics
    }

    /// Values of a metric by epoch.
    pub(in crate::cli) fn values(&self, metric: &str) -> Vec<f64> {
        let Some((phase, name)) = metric.split_once('/') else {
            return Vec::new();
        };
        let rows = self.curves.get(phase).into_iter().flatten();
        rows.filter_map(|row| row.metrics.get(name).copied())
            .collect()
    }

    /// Best value of a metric and its epoch; the last value if there is no curve.
    pub(in crate::cli) fn best(&self, metric: &str) -> Option<(f64, Option<u64>)> {
        let (phase, name) = metric.split_once('/')?;
        let rule = Rule::of_metric(name)?;
        let rows = self.curves.get(phase).into_iter().flatten();
        let mut best: Option<(f64, Option<u64>)> = None;
        for row in rows {
            let Some(&value) = row.metrics.get(name) else {
                continue;
            };
            if best.is_none_or(|(other, _)| rule.is_better(value, other)) {
                best = Some((value, Some(row.epoch)));
            }
        }
        best.or_else(|| Some((*self.metrics().get(metric)?, None)))
    }

    /// Most informative metric of the run: validation accuracy, else validation loss, else those of
    /// training.
    pub(in crate::cli) fn main_metric(&self) -> Option<String> {
        let metrics = self.metrics();
        ["val/accuracy", "val/loss", "train/accuracy", "train/loss"]
            .into_iter()
            .find(|name| metrics.contains_key(*name))
            .map(str::to_owned)
    }
}

/// State of the run, in a word or two.
fn state(directory: &Path, record: &Map<String, Value>, open: Open<'_>) -> String {
    if let Some(outcome) = record.get("outcome").and_then(Value::as_str) {
        return outcome.to_owned();
    }
    if session::is_in_use(directory) {
        return "running".to_owned();
    }
    if open(&directory.join("crash.json")).is_ok() {
        return "crashed".to_owned();
    }
    "broken off".to_owned()
}

fn json(path: &Path, open: Open<'_>) -> Option<Value> {
    let mut bytes = Vec::new();
    read_more(open(path).ok()?, &mut bytes, u64::MAX).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Reads the rows of a table of the hook `csv`; non-numeric cells are left out.
fn curve(file: File) -> Option<Vec<Row>> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let header = reader.headers().ok()?.clone();
    let rows = reader.records().map_while(Result::ok).map(|row| {
        let cells = header.iter().zip(row.iter());
        let numbers = cells.filter_map(|(name, cell)| Some((name, cell.parse::<f64>().ok()?)));
        let mut metrics: Metrics = numbers
            .map(|(name, value)| (spreadsheet::unescaped(name).to_owned(), value))
            .collect();
        let mut counter = |name| metrics.remove(name).unwrap_or(0.0) as u64;
        let (epoch, iteration) = (counter("epoch"), counter("iteration"));
        // Columns of the table that are not metrics.
        for other in ["update", "learning_rate"] {
            metrics.remove(other);
        }
        Row {
            epoch,
            iteration,
            metrics,
        }
    });
    Some(rows.collect())
}
