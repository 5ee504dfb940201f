//! The table of a sweep's trials.

use std::io;

use serde_json::Value;

use super::plan::Sweep;
use super::space::Trial;
use crate::cli::show::{number, output};
use crate::shell_word::shell_word;
use sconce_base::files::write_atomically;

/// Number of trials that are shown.
const MOST_SHOWN: usize = 10;

/// A trial in the table.
struct Row {
    trial: usize,
    /// Whether it is waiting, running or paused, or how it has ended.
    state: String,
    epochs: Option<u64>,
    /// The metric at the last rung that it has reached.
    value: Option<f64>,
    seconds: Option<f64>,
}

impl Row {
    fn of(sweep: &Sweep, trial: usize) -> Row {
        let directory = sweep.directory(trial);
        let record = directory.record();
        let text = |key: &str| record.as_ref()?.get(key)?.as_str().map(str::to_owned);
        let number = |key: &str| record.as_ref()?.get(key).cloned();
        let state = text("outcome").unwrap_or_else(|| {
            let is_new = !directory.path.exists();
            let is_in_use = !is_new && crate::session::is_in_use(&directory.path);
            let state = match (is_new, is_in_use) {
                (true, _) => "waiting",
                (false, true) => "running",
                (false, false) => "broken off",
            };
            state.to_owned()
        });
        let reached = (0..sweep.rungs.len())
            .rev()
            .find_map(|rung| sweep.reached(trial, rung));
        Row {
            trial,
            state,
            epochs: number("epochs").as_ref().and_then(Value::as_u64),
            value: reached.flatten(),
            seconds: number("seconds").as_ref().and_then(Value::as_f64),
        }
    }
}

/// Writes the table of all trials, the best first: `results.csv`.
pub(super) fn write(sweep: &Sweep) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(Vec::new());
    let paths = paths(sweep);
    let fixed = [
        "trial",
        "state",
        "epochs",
        &sweep.document.metric,
        "seconds",
    ];
    table.write_record(fixed.into_iter().chain(paths.iter().copied()))?;
    for trial in sweep.progress().ranking {
        let row = Row::of(sweep, trial);
        let optional = |value: Option<String>| value.unwrap_or_default();
        let mut cells = vec![
            (trial + 1).to_string(),
            row.state,
            optional(row.epochs.map(|epochs| epochs.to_string())),
            optional(row.value.map(|value| value.to_string())),
            optional(row.seconds.map(|seconds| seconds.to_string())),
        ];
        cells.extend(values(sweep.trials.get(trial), &paths));
        table.write_record(&cells)?;
    }
    let bytes = table
        .into_inner()
        .map_err(|error| io::Error::other(error.to_string()))?;
    write_atomically(&sweep.output.join("results.csv"), &bytes)
}

/// Shows the best trials, and how to train the first again.
pub(super) fn show(sweep: &Sweep) {
    let paths = paths(sweep);
    let heading = ["TRIAL", "STATE", "EPOCHS", &sweep.document.metric];
    let heading = heading.into_iter().chain(paths.iter().copied());
    let mut rows = vec![heading.map(str::to_owned).collect::<Vec<_>>()];
    let ranking = sweep.progress().ranking;
    for &trial in ranking.iter().take(MOST_SHOWN) {
        let row = Row::of(sweep, trial);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let mut cells = vec![
            (row.trial + 1).to_string(),
            row.state,
            or_dash(row.epochs.map(|epochs| epochs.to_string())),
            or_dash(row.value.map(|value| number::shown(value, 5))),
        ];
        cells.extend(values(sweep.trials.get(trial), &paths));
        rows.push(cells);
    }
    output::table(&rows);
    let shown = rows.len() - 1;
    if ranking.len() > shown {
        output::line(&format!(
            "and {} more in {}",
            ranking.len() - shown,
            sweep.output.join("results.csv").display()
        ));
    }
    let best = ranking.first().and_then(|&best| sweep.trials.get(best));
    if let Some(best) = best {
        let directory = sweep.directory(best.trial - 1);
        output::line(&format!("the best: {}", directory.path.display()));
        let set = best.assignments();
        let set: Vec<String> = set
            .iter()
            .map(|text| format!(" --set {}", shell_word(text)))
            .collect();
        let run = sweep.document.run.to_string_lossy().into_owned();
        output::line(&format!(
            "  sconce run {}{}",
            shell_word(&run),
            set.concat()
        ));
    }
}

/// The paths that trials set.
fn paths(sweep: &Sweep) -> Vec<&str> {
    let first = sweep.trials.first();
    let paths = first.map(|trial| trial.set.keys().map(String::as_str));
    paths.into_iter().flatten().collect()
}

fn values(trial: Option<&Trial>, paths: &[&str]) -> Vec<String> {
    let value = |path: &&str| match trial.and_then(|trial| trial.set.get(*path)) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    };
    paths.iter().map(value).collect()
}
