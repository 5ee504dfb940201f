//! `sconce compare`: metrics, curves and manifest differences of several runs side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use sconce_plugin_api::Rule;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::past_runs::past_run::PastRun;
use crate::cli::show::{number, output};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::manifest::json_path;

/// Arguments of `sconce compare`.
#[derive(Debug, Args)]
pub(in crate::cli) struct CompareArgs {
    /// Directories of the runs.
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Metric whose curves are drawn, such as `val/loss`; may be given several times. Default: the
    /// validation loss and accuracy.
    #[arg(long = "metric", value_name = "METRIC")]
    metrics: Vec<String>,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

impl CompareArgs {
    /// Those of a comparison of `runs` without options.
    pub(in crate::cli) fn of(runs: Vec<PathBuf>) -> CompareArgs {
        CompareArgs {
            runs,
            metrics: Vec::new(),
            json: false,
        }
    }
}

pub(in crate::cli) fn compare(arguments: &CompareArgs) -> u8 {
    let mut runs = Vec::new();
    let mut problems = Vec::new();
    for directory in &arguments.runs {
        match PastRun::read(directory) {
            Some(run) => runs.push(run),
            None => problems.push(
                Diagnostic::new(format!(
                    "`{}` is not a run's directory",
                    directory.display()
                ))
                .hint("`sconce runs` lists those that there are"),
            ),
        }
    }
    if !problems.is_empty() {
        output::diagnostics(&problems);
        return exit::USAGE;
    }
    let labels = labels(&runs);
    let (metrics, last) = tables_of_metrics(&runs);
    let differences = differences(&runs);
    let spreads = are_folds(&differences).then(|| Spread::of_all(&metrics));
    if arguments.json {
        let mut object = json!({
            "runs": labels,
            "kept": runs.iter().map(PastRun::kept).collect::<Vec<_>>(),
            "metrics": metrics,
            "last": last,
            "differences": differences,
        });
        if let Some(spreads) = &spreads {
            object["folds"] = json!(spreads);
        }
        output::json(&object);
        return exit::DONE;
    }
    let losses = losses(&runs);
    let mut rows = metric_rows(&labels, &metrics, &last, losses.len() < 2);
    rows.insert(1, kept_row(&runs));
    output::table(&rows);
    if let Some(spreads) = &spreads {
        output::line("");
        output::line("folds of one manifest:");
        output::table(&spread_rows(spreads));
    }
    if losses.len() > 1 {
        output::line(&format!(
            "the losses are of different kinds ({}): none is marked as the best",
            losses.join(", ")
        ));
    }
    draw(&runs, &labels, &arguments.metrics);
    output::line("");
    if differences.is_empty() {
        output::line("the manifests are the same");
    } else {
        output::table(&difference_rows(&labels, &differences));
    }
    exit::DONE
}

/// Mean and standard deviation of a metric over the folds of a manifest.
#[derive(Debug, PartialEq, Serialize)]
struct Spread {
    mean: f64,
    /// Of the folds as a sample: the sum of squares is divided by their number less 1.
    deviation: f64,
}

impl Spread {
    /// Those of all metrics that every fold has.
    fn of_all(metrics: &MetricTable) -> BTreeMap<&str, Spread> {
        let known = metrics.iter().filter_map(|(name, values)| {
            let values: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
            Some((name.as_str(), Spread::of(&values)))
        });
        known.collect()
    }

    fn of(values: &[f64]) -> Spread {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2));
        let deviation = (squares.sum::<f64>() / (count - 1.0).max(1.0)).sqrt();
        Spread { mean, deviation }
    }
}

/// Whether runs are folds of one manifest, which differs in nothing else.
fn are_folds(differences: &BTreeMap<String, Vec<Value>>) -> bool {
    differences.len() == 1 && differences.contains_key("data.val.fold")
}

fn spread_rows(spreads: &BTreeMap<&str, Spread>) -> Vec<Vec<String>> {
    let heading = ["METRIC", "MEAN", "DEVIATION"].map(str::to_owned).to_vec();
    let rows = spreads.iter().map(|(name, spread)| {
        let [mean, deviation] = [spread.mean, spread.deviation].map(|x| number::shown(x, 5));
        vec![(*name).to_owned(), mean, deviation]
    });
    std::iter::once(heading).chain(rows).collect()
}

/// Labels of the runs: their names, or their directories if names are not unique.
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

/// The weights that each run keeps.
fn kept_row(runs: &[PastRun]) -> Vec<String> {
    let kept = |run: &PastRun| run.kept_in_words().unwrap_or_else(|| "–".to_owned());
    let cells = runs.iter().map(kept);
    std::iter::once("weights".to_owned()).chain(cells).collect()
}

/// Values by metric, one for each run.
type MetricTable = BTreeMap<String, Vec<Option<f64>>>;

/// Values of metrics in each run: of the weights that are kept, and those measured last with others.
fn tables_of_metrics(runs: &[PastRun]) -> (MetricTable, MetricTable) {
    let kept: Vec<BTreeMap<String, f64>> = runs.iter().map(PastRun::metrics).collect();
    let last: Vec<BTreeMap<String, f64>> = runs.iter().map(PastRun::last).collect();
    // Elements of tables, such as `val/confusion/3/5`, are too many to read side by side.
    let plain = |name: &&String| name.matches('/').count() == 1;
    let all = kept.iter().chain(&last).flat_map(BTreeMap::keys);
    let names: BTreeSet<&String> = all.filter(plain).collect();
    let table = |of_runs: &[BTreeMap<String, f64>]| {
        let values = |name: &String| of_runs.iter().map(|run| run.get(name).copied()).collect();
        let rows = names.iter().map(|name| ((*name).clone(), values(name)));
        rows.collect()
    };
    (table(&kept), table(&last))
}

/// Distinct kinds of the runs' losses; only values of one kind can be compared.
fn losses(runs: &[PastRun]) -> Vec<&str> {
    let kinds: BTreeSet<&str> = runs.iter().filter_map(PastRun::loss_kind).collect();
    kinds.into_iter().collect()
}

/// Whether a metric is the loss itself.
fn is_loss(metric: &str) -> bool {
    metric.rsplit('/').next() == Some("loss")
}

fn metric_rows(
    labels: &[String],
    metrics: &MetricTable,
    last: &MetricTable,
    are_losses_alike: bool,
) -> Vec<Vec<String>> {
    let mut rows = vec![heading("METRIC", labels)];
    for (name, values) in metrics {
        let rule = name
            .split_once('/')
            .and_then(|(_, name)| Rule::of_metric(name))
            .filter(|_| are_losses_alike || !is_loss(name));
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
        let last = last.get(name);
        let cell = |(run, value): (usize, &Option<f64>)| {
            let text = match value {
                // The best value is marked.
                Some(value) if best == Some(*value) => format!("{} *", number::shown(*value, 5)),
                Some(value) => number::shown(*value, 5),
                None => "–".to_owned(),
            };
            match last.and_then(|last| *last.get(run)?) {
                Some(last) => format!("{text} (last {})", number::shown(last, 5)),
                None => text,
            }
        };
        let cells = values.iter().enumerate().map(cell);
        rows.push(std::iter::once(name.clone()).chain(cells).collect());
    }
    rows
}

fn heading(first: &str, labels: &[String]) -> Vec<String> {
    let labels = labels.iter().cloned();
    std::iter::once(first.to_owned()).chain(labels).collect()
}

/// Draws the curves of metrics, one line per run, with a common scale for each metric.
fn draw(runs: &[PastRun], labels: &[String], wanted: &[String]) {
    let usual = ["val/loss", "val/accuracy"].map(String::from);
    let metrics: &[String] = if wanted.is_empty() { &usual } else { wanted };
    for metric in metrics {
        let curves: Vec<Vec<f64>> = runs.iter().map(|run| run.values(metric)).collect();
        let Some(common) = Scale::of(curves.iter().flatten()) else {
            continue;
        };
        let is_common = !is_loss(metric) || losses(runs).len() < 2;
        output::line("");
        if is_common {
            output::line(&format!("{metric} by epoch, {}", common.in_words()));
        } else {
            output::line(&format!("{metric} by epoch, each by a scale of its own"));
        }
        let row = |(label, curve): (&String, &Vec<f64>)| {
            let mut row = vec![format!("  {label}")];
            if is_common {
                row.push(common.sparkline(curve));
            } else if let Some(own) = Scale::of(curve) {
                row.extend([own.sparkline(curve), own.in_words()]);
            }
            row
        };
        let rows: Vec<Vec<String>> = labels.iter().zip(&curves).map(row).collect();
        output::table(&rows);
    }
}

/// Bars of eight heights.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Range of values, drawn as bars.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    low: f64,
    high: f64,
    /// Whether it is logarithmic: on a linear scale a curve that falls by orders of magnitude is
    /// one bar and then flat.
    is_logarithmic: bool,
}

impl Scale {
    /// Returns the scale that covers all finite values, or `None` if there are none.
    fn of<'a>(values: impl IntoIterator<Item = &'a f64>) -> Option<Scale> {
        let finite = values
            .into_iter()
            .copied()
            .filter(|value| value.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        (low <= high).then(|| Scale {
            low,
            high,
            is_logarithmic: low > 0.0 && high / low >= 30.0,
        })
    }

    fn in_words(self) -> String {
        let (low, high) = (number::shown(self.low, 4), number::shown(self.high, 4));
        let by = if self.is_logarithmic {
            ", logarithmic"
        } else {
            ""
        };
        format!("from {low} to {high}{by}")
    }

    fn sparkline(self, values: &[f64]) -> String {
        let place = |value: f64| {
            if self.is_logarithmic {
                value.ln()
            } else {
                value
            }
        };
        let (low, high) = (place(self.low), place(self.high));
        let bar = |value: &f64| {
            // Non-finite values have no bar.
            if !value.is_finite() {
                return '!';
            }
            // A constant curve is drawn at half height.
            let share = if high > low {
                (place(*value) - low) / (high - low)
            } else {
                0.5
            };
            let step = (share * (BARS.len() - 1) as f64).round() as usize;
            BARS.get(step).copied().unwrap_or('!')
        };
        values.iter().map(bar).collect()
    }
}

/// Paths at which manifests differ, with each run's value.
fn differences(runs: &[PastRun]) -> BTreeMap<String, Vec<Value>> {
    let flat: Vec<BTreeMap<String, Value>> = runs
        .iter()
        .map(|run| json_path::leaves(&run.manifest))
        .collect();
    differing(&flat.iter().collect::<Vec<_>>())
}

/// Paths at which manifests, given by their leaves, differ, with the value in each of them; null where it has none.
pub(in crate::cli) fn differing(
    manifests: &[&BTreeMap<String, Value>],
) -> BTreeMap<String, Vec<Value>> {
    let paths: BTreeSet<&String> = manifests.iter().flat_map(|leaves| leaves.keys()).collect();
    let mut differences = BTreeMap::new();
    for path in paths {
        // These identify the run rather than configure it.
        if matches!(path.as_str(), "name" | "output") {
            continue;
        }
        let value = |leaves: &&BTreeMap<String, Value>| leaves.get(path).cloned();
        let first = manifests.first().and_then(|leaves| leaves.get(path));
        if manifests.iter().any(|leaves| leaves.get(path) != first) {
            let values = manifests.iter().map(value).map(Option::unwrap_or_default);
            differences.insert(path.clone(), values.collect());
        }
    }
    differences
}

fn difference_rows(
    labels: &[String],
    differences: &BTreeMap<String, Vec<Value>>,
) -> Vec<Vec<String>> {
    let mut rows = vec![heading("MANIFEST", labels)];
    for (path, values) in differences {
        let cell = |value: &Value| match value {
            Value::Null => "–".to_owned(),
            value => crate::diagnostic::shortened(&value.to_string()),
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
        let drawn = |values: &[f64]| Scale::of(values).map(|scale| scale.sparkline(values));
        assert_eq!(drawn(&[0.0, 0.5, 1.0, f64::NAN]).as_deref(), Some("▁▅█!"));
        assert_eq!(drawn(&[2.0, 2.0]).as_deref(), Some("▅▅"));
        // On a linear scale, all but the first would be the lowest bar.
        assert_eq!(drawn(&[2.3, 0.23, 0.023, 0.0023]).as_deref(), Some("█▆▃▁"));
        assert_eq!(drawn(&[f64::NAN]), None);
    }
}
