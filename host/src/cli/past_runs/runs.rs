//! `sconce runs`: lists the runs in a directory, with their states.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::cli::past_runs::past_run::PastRun;
use crate::cli::show::{number, output};
use crate::exit;

/// How many levels of subdirectories are searched for runs.
pub(in crate::cli) const DEPTH: usize = 4;

/// Arguments of `sconce runs`.
#[derive(Debug, Args)]
pub(in crate::cli) struct RunsArgs {
    /// Directory to search, several levels deep.
    #[arg(default_value = "runs")]
    directory: PathBuf,
    /// Metric that is shown, such as `val/accuracy`: its value for the weights that a run keeps, and the last one where it
    /// differs. Default: the validation accuracy, or else loss. For a run that has not ended: the best value so far by
    /// the tables of the hook `csv`.
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// Prints one JSON array.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn runs(arguments: &RunsArgs) -> u8 {
    if !arguments.directory.is_dir() {
        let problem = format!("there is no directory `{}`", arguments.directory.display());
        let hint = "say where the runs are: `sconce runs DIR`";
        output::diagnostics(&[crate::diagnostic::Diagnostic::new(problem).hint(hint)]);
        return exit::USAGE;
    }
    let mut found = Vec::new();
    search(&arguments.directory, DEPTH, &mut found);
    let metric = |run: &PastRun| arguments.metric.clone().or_else(|| run.main_metric());
    if arguments.json {
        let all: Vec<Value> = found
            .iter()
            .map(|run| object(run, metric(run).as_deref()))
            .collect();
        output::json(&all);
        return exit::DONE;
    }
    if found.is_empty() {
        output::line("no runs found");
        return exit::DONE;
    }
    let header = [
        "RUN",
        "STATE",
        "EPOCHS",
        "SECONDS",
        "KEPT",
        "LAST CHECKPOINT",
        "DIRECTORY",
    ];
    let mut rows = vec![header.map(String::from).to_vec()];
    for run in &found {
        rows.push(row(run, metric(run).as_deref()));
    }
    output::table(&rows);
    exit::DONE
}

/// Collects the runs in a directory and below it, sorted by path.
fn search(directory: &Path, depth: usize, found: &mut Vec<PastRun>) {
    if let Some(run) = PastRun::read(directory) {
        found.push(run);
        return;
    }
    if depth == 0 {
        return;
    }
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut below: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    below.sort();
    for directory in below {
        search(&directory, depth - 1, found);
    }
}

fn row(run: &PastRun, metric: Option<&str>) -> Vec<String> {
    let planned = run
        .manifest
        .pointer("/train/epochs")
        .and_then(Value::as_u64);
    let epochs = match planned {
        Some(planned) => format!("{}/{planned}", run.epochs()),
        None => run.epochs().to_string(),
    };
    let seconds = run.record.get("seconds").and_then(Value::as_f64);
    vec![
        run.name().to_owned(),
        run.state.clone(),
        epochs,
        seconds.map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.1}")),
        metric
            .and_then(|metric| kept(run, metric).or_else(|| best(run, metric)))
            .unwrap_or_else(|| "–".to_owned()),
        run.last_checkpoint
            .clone()
            .unwrap_or_else(|| "–".to_owned()),
        run.directory.display().to_string(),
    ]
}

/// A metric of the weights that are kept, and what was measured last with others.
fn kept(run: &PastRun, metric: &str) -> Option<String> {
    let weights = run.kept_in_words()?;
    let value = *run.metrics().get(metric)?;
    let last = run.last().get(metric).copied();
    let last = last.map_or_else(String::new, |last| {
        format!(", last {}", number::shown(last, 4))
    });
    Some(format!(
        "{metric} {} ({weights}){last}",
        number::shown(value, 4)
    ))
}

/// The best value of a metric so far.
fn best(run: &PastRun, metric: &str) -> Option<String> {
    let (value, epoch) = run.best(metric)?;
    let epoch = epoch.map_or_else(|| "last".to_owned(), |epoch| format!("best, epoch {epoch}"));
    Some(format!("{metric} {} ({epoch})", number::shown(value, 4)))
}

fn object(run: &PastRun, metric: Option<&str>) -> Value {
    let best = metric.and_then(|metric| {
        let (value, epoch) = run.best(metric)?;
        Some(json!({"metric": metric, "value": value, "epoch": epoch}))
    });
    json!({
        "name": run.name(),
        "directory": run.directory,
        "state": run.state,
        "epochs": run.epochs(),
        "planned_epochs": run.manifest.pointer("/train/epochs"),
        "seconds": run.record.get("seconds"),
        "reason": run.record.get("reason"),
        "best": best,
        "kept": run.kept(),
        "metrics": run.metrics(),
        "last": run.last(),
        "checkpoints": run.checkpoints,
        "last_checkpoint": run.last_checkpoint,
    })
}
