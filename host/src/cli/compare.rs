//! `sconce compare`: runs side by side: metrics, curves, and where their manifests differ.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use sconce_plugin_api::Rule;
use serde_json::{Value, json};

use super::output;
use super::past_run::PastRun;
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::manifest::json_path;

/// The arguments of `sconce compare`.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// The runs' directories.
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The metric whose curves are drawn, as `val/loss`; may be given several times. Default: the
    /// validation's loss and accuracy.
    #[arg(long = "metric", value_name = "METRIC")]
    metrics: Vec<String>,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn compare(arguments: &CompareArgs) -> u8 {
    let mut runs = Vec::new();
    let mut problems = Vec::new();
    for directory in &arguments.runs {
        match PastRun::read(directory) {
            Some(run) => runs.push(run),
            None => problems.push(
                Diagnostic::new(format!("`{}` is no run's directory", directory.display()))
                    .hint("`sconce runs` lists those that there are"),
            ),
        }
    }
    if !problems.is_empty() {
        output::diagnostics(&problems);
        return exit::USAGE;
    }
    let labels = labels(&runs);
    let metrics = table_of_metrics(&runs);
    let differences = differences(&runs);
    if arguments.json {
        let object = json!({
            "runs": labels,
            "metrics": metrics,
            "differences": differences,
        });
        output::line(&format!("{object:#}"));
        return exit::DONE;
    }
    output::table(&metric_rows(&labels, &metrics));
    draw(&runs, &labels, &arguments.metrics);
    output::line("");
    if differences.is_empty() {
        output::line("the manifests are the same");
    } else {
        output::table(&difference_rows(&labels, &differences));
    }
    exit::DONE
}

/// What each run is called: its name, or its directory where names are shared.
fn labels(runs: &[PastRun]) -> Vec<String> {
    let names: BTreeSet<&str> = runs.iter().map(PastRun::name).collect();
    let are_own = names.len() == runs.len();
    runs.iter()
        .map(|run| {
            if are_own {
                run.name().to_owned()
            } else {
                run.directory.display().to_string()
            }
        })
        .collect()
}

/// Each metric's last value in each run.
fn table_of_metrics(runs: &[PastRun]) -> BTreeMap<String, Vec<Option<f64>>> {
    let all: Vec<BTreeMap<String, f64>> = runs.iter().map(PastRun::metrics).collect();
    // Numbers of tables, `val/confusion/3/5`, are too many to be read side by side.
    let plain = |name: &&String| name.matches('/').count() == 1;
    let names: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).filter(plain).collect();
    let values = |name: &String| {
        all.iter()
            .map(|metrics| metrics.get(name).copied())
            .collect()
    };
    names
        .into_iter()
        .map(|name| (name.clone(), values(name)))
        .collect()
}

fn metric_rows(
    labels: &[String],
    metrics: &BTreeMap<String, Vec<Option<f64>>>,
) -> Vec<Vec<String>> {
    let mut rows = vec![heading("METRIC", labels)];
    for (name, values) in metrics {
        let rule = name
            .split_once('/')
            .and_then(|(_, name)| Rule::of_metric(name));
        let best = rule.and_then(|rule| {
            let numbers = values.iter().flatten().copied();
            numbers.reduce(|best, other| {
                if rule.is_better(other, best) {
                    other
                } else {
                    best
                }
            })
        });
        let cell = |value: &Option<f64>| match value {
            // The best is marked.
            Some(value) if best == Some(*value) => format!("{value:.5} *"),
            Some(value) => format!("{value:.5}"),
            None => "–".to_owned(),
        };
        let cells = values.iter().map(cell);
        rows.push(std::iter::once(name.clone()).chain(cells).collect());
    }
    rows
}

fn heading(first: &str, labels: &[String]) -> Vec<String> {
    let labels = labels.iter().cloned();
    std::iter::once(first.to_owned()).chain(labels).collect()
}

/// Draws the curves of metrics, one line for each run, all of a metric by the same scale.
fn draw(runs: &[PastRun], labels: &[String], wanted: &[String]) {
    let usual = ["val/loss", "val/accuracy"].map(String::from);
    let metrics: &[String] = if wanted.is_empty() { &usual } else { wanted };
    for metric in metrics {
        let curves: Vec<Vec<f64>> = runs.iter().map(|run| run.values(metric)).collect();
        let finite = || curves.iter().flatten().copied().filter(|v| v.is_finite());
        let (low, high) = (
            finite().fold(f64::INFINITY, f64::min),
            finite().fold(f64::NEG_INFINITY, f64::max),
        );
        if low > high {
            continue;
        }
        output::line(&format!("\n{metric} by epoch, from {low:.4} to {high:.4}"));
        let rows: Vec<Vec<String>> = labels
            .iter()
            .zip(&curves)
            .map(|(label, curve)| vec![format!("  {label}"), sparkline(curve, low, high)])
            .collect();
        output::table(&rows);
    }
}

/// Values as bars of eight heights.
fn sparkline(values: &[f64], low: f64, high: f64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let span = (high - low).max(f64::MIN_POSITIVE);
    values
        .iter()
        .map(|value| {
            let step = (value - low) / span * (BARS.len() - 1) as f64;
            // What is no number has no bar.
            let bar = value.is_finite().then(|| BARS.get(step.round() as usize));
            bar.flatten().copied().unwrap_or('!')
        })
        .collect()
}

/// The paths at which manifests differ, with each run's value.
fn differences(runs: &[PastRun]) -> BTreeMap<String, Vec<Value>> {
    let flat: Vec<BTreeMap<String, Value>> = runs
        .iter()
        .map(|run| {
            let mut leaves = BTreeMap::new();
            flatten("", &run.manifest, &mut leaves);
            leaves
        })
        .collect();
    let paths: BTreeSet<&String> = flat.iter().flat_map(BTreeMap::keys).collect();
    let mut differences = BTreeMap::new();
    for path in paths {
        // These say which run it is, not what it does.
        if matches!(path.as_str(), "name" | "output") {
            continue;
        }
        let values: Vec<Value> = flat
            .iter()
            .map(|leaves| leaves.get(path).cloned().unwrap_or(Value::Null))
            .collect();
        let first = values.first();
        if values.iter().any(|value| Some(value) != first) {
            differences.insert(path.clone(), values);
        }
    }
    differences
}

/// The values that are neither objects nor lists of such, by their paths.
fn flatten(path: &str, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, member) in members {
                flatten(&json_path::member(path, key), member, leaves);
            }
        }
        Value::Array(elements) if elements.iter().any(|e| e.is_object() || e.is_array()) => {
            for (index, element) in elements.iter().enumerate() {
                flatten(&json_path::element(path, index), element, leaves);
            }
        }
        leaf => {
            leaves.insert(path.to_owned(), leaf.clone());
        }
    }
}

fn difference_rows(
    labels: &[String],
    differences: &BTreeMap<String, Vec<Value>>,
) -> Vec<Vec<String>> {
    let mut rows = vec![heading("MANIFEST", labels)];
    for (path, values) in differences {
        let cell = |value: &Value| match value {
            Value::Null => "–".to_owned(),
            value => crate::diagnostic::shortened(&value.to_string()).clone(),
        };
        rows.push(
            std::iter::once(path.clone())
                .chain(values.iter().map(cell))
                .collect(),
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_rise_with_values() {
        assert_eq!(sparkline(&[0.0, 0.5, 1.0, f64::NAN], 0.0, 1.0), "▁▅█!");
        assert_eq!(sparkline(&[2.0, 2.0], 2.0, 2.0), "▁▁");
    }

    #[test]
    fn leaves_have_paths() {
        let mut leaves = BTreeMap::new();
        let manifest =
            json!({"train": {"epochs": 2}, "plugins": ["a"], "hooks": [{"hook": "csv"}]});
        flatten("", &manifest, &mut leaves);
        let paths: Vec<&String> = leaves.keys().collect();
        assert_eq!(paths, ["hooks[0].hook", "plugins", "train.epochs"]);
    }
}
