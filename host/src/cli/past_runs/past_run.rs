//! A run as recorded in its directory, for `sconce runs` and `sconce compare`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sconce_plugin_api::{Rule, spreadsheet};
use serde_json::{Map, Value};

use crate::checkpoint::Store;
use crate::session;
use sconce_base::regular_file::{open_regular, read_regular};

/// Metrics of a pass over a phase's data.
type Metrics = BTreeMap<String, f64>;

/// A run as recorded in its directory.
#[derive(Debug)]
pub(in crate::cli) struct PastRun {
    /// Its directory.
    pub(super) directory: PathBuf,
    /// The manifest, with all defaults.
    pub(in crate::cli) manifest: Value,
    /// Whether it is running, or how it ended.
    pub(super) state: String,
    /// Record of its end; empty without one.
    pub(super) record: Map<String, Value>,
    /// Tags of its checkpoints.
    pub(super) checkpoints: Vec<String>,
    /// Tag of the last checkpoint.
    pub(super) last_checkpoint: Option<String>,
    /// Metrics of each epoch by phase, if the hook `csv` wrote them.
    pub(super) curves: BTreeMap<String, Vec<(u64, Metrics)>>,
}

impl PastRun {
    /// Reads a run's directory; `None` if it has no run.
    pub(in crate::cli) fn read(directory: &Path) -> Option<PastRun> {
        let manifest = json(&directory.join("manifest.json"))?;
        let record = match json(&directory.join("run.json")) {
            Some(Value::Object(record)) => record,
            _ => Map::new(),
        };
        let store = Store::of(directory);
        let phases = ["train", "val", "test"];
        let curves = phases.into_iter().filter_map(|phase| {
            let curve = curve(&directory.join(format!("{phase}.csv")))?;
            Some((phase.to_owned(), curve))
        });
        Some(PastRun {
            state: state(directory, &record),
            checkpoints: store.tags(),
            last_checkpoint: store.latest(),
            curves: curves.collect(),
            directory: directory.to_owned(),
            manifest,
            record,
        })
    }

    /// Name of the run.
    pub(super) fn name(&self) -> &str {
        self.manifest["name"].as_str().unwrap_or_default()
    }

    /// Whether it was trained to its end.
    pub(in crate::cli) fn is_complete(&self) -> bool {
        matches!(self.state.as_str(), "completed" | "stopped")
    }

    /// Number of epochs finished, from the record or the rows of the training metrics.
    pub(super) fn epochs(&self) -> u64 {
        let recorded = self.record.get("epochs").and_then(Value::as_u64);
        let last = self.curves.get("train").and_then(|rows| rows.last());
        recorded.or(last.map(|(epoch, _)| *epoch)).unwrap_or(0)
    }

    /// Kind of the loss, such as `cross-entropy`: from the manifest, or inferred from the default metrics;
    /// `None` if unknown.
    pub(super) fn loss_kind(&self) -> Option<&str> {
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
    pub(super) fn kept_in_words(&self) -> Option<String> {
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
    pub(super) fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::new();
        let curves = self.curves.iter().filter(|_| self.kept().is_none());
        for (phase, rows) in curves {
            if let Some((_, last)) = rows.last() {
                metrics.extend(
                    last.iter()
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
    pub(super) fn last(&self) -> Metrics {
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
    pub(super) fn values(&self, metric: &str) -> Vec<f64> {
        let Some((phase, name)) = metric.split_once('/') else {
            return Vec::new();
        };
        let rows = self.curves.get(phase).into_iter().flatten();
        rows.filter_map(|(_, metrics)| metrics.get(name).copied())
            .collect()
    }

    /// Best value of a metric and its epoch; the last value if there is no curve.
    pub(super) fn best(&self, metric: &str) -> Option<(f64, Option<u64>)> {
        let (phase, name) = metric.split_once('/')?;
        let rule = Rule::of_metric(name)?;
        let rows = self.curves.get(phase).into_iter().flatten();
        let mut best: Option<(f64, Option<u64>)> = None;
        for (epoch, metrics) in rows {
            let Some(&value) = metrics.get(name) else {
                continue;
            };
            if best.is_none_or(|(other, _)| rule.is_better(value, other)) {
                best = Some((value, Some(*epoch)));
            }
        }
        best.or_else(|| Some((*self.metrics().get(metric)?, None)))
    }

    /// Most informative metric of the run: validation accuracy, else validation loss, else those of
    /// training.
    pub(super) fn main_metric(&self) -> Option<String> {
        let metrics = self.metrics();
        ["val/accuracy", "val/loss", "train/accuracy", "train/loss"]
            .into_iter()
            .find(|name| metrics.contains_key(*name))
            .map(str::to_owned)
    }
}

/// State of the run, in a word or two.
fn state(directory: &Path, record: &Map<String, Value>) -> String {
    if let Some(outcome) = record.get("outcome").and_then(Value::as_str) {
        return outcome.to_owned();
    }
    if session::is_in_use(directory) {
        return "running".to_owned();
    }
    if directory.join("crash.json").is_file() {
        return "crashed".to_owned();
    }
    "broken off".to_owned()
}

fn json(path: &Path) -> Option<Value> {
    let bytes = read_regular(path).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Reads the rows of a table of the hook `csv`; non-numeric cells are left out.
fn curve(path: &Path) -> Option<Vec<(u64, Metrics)>> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(open_regular(path).ok()?);
    let header = reader.headers().ok()?.clone();
    let rows = reader.records().map_while(Result::ok).map(|row| {
        let cells = header.iter().zip(row.iter());
        let numbers = cells.filter_map(|(name, cell)| Some((name, cell.parse::<f64>().ok()?)));
        let mut metrics: Metrics = numbers
            .map(|(name, value)| (spreadsheet::unescaped(name).to_owned(), value))
            .collect();
        let epoch = metrics.remove("epoch").unwrap_or(0.0) as u64;
        // Columns of the table that are not metrics.
        for counter in ["iteration", "update", "learning_rate"] {
            metrics.remove(counter);
        }
        (epoch, metrics)
    });
    Some(rows.collect())
}
