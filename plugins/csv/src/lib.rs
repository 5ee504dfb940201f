//! The `csv` hook: one row per pass over a phase's data, one file per phase: `train.csv`, `val.csv`,
//! `test.csv`.
//!
//! ```text
//! epoch,iteration,update,learning_rate,loss,accuracy
//! 0,0,0,0.001,2.3104,0.0982
//! 1,141,141,0.001,0.5127,0.8561
//! ```
//!
//! - `epoch`, `iteration` and `update` count what is completed, as everywhere: the row of a validation has
//!   the epoch that it validates, an initial validation 0. The row of a training epoch interrupted by a
//!   stop has the epoch of the previous row and its own iteration.
//! - A phase with several data sets has a file for each, such as `val-clean.csv`.
//! - The header is written with the first row. A metric that first appears later has no column and is
//!   reported in a warning, once. Listed under `variables`, it has one from the start.
//! - Each row is flushed to the file, so that a crash loses none.
//! - A resumed run continues after the rows recorded in its checkpoint.

#![forbid(unsafe_code)]

mod config;
mod number;
mod row;
mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;

use sconce_plugin_api::prelude::*;

use config::Config;
use row::Row;
use table::{Saved, Table};

struct Csv {
    config: Config,
    directory: PathBuf,
    /// Tables by file name, opened with their first rows, since the metrics are not known earlier.
    tables: BTreeMap<String, Table>,
}

#[hook(
    name = "csv",
    about = "Writes a row of metrics per epoch, one file per phase.",
    priority = LOW
)]
impl Hook for Csv {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        config.check()?;
        Ok(Csv {
            directory: config.place(setup)?,
            config,
            tables: BTreeMap::new(),
        })
    }

    fn save_state(&mut self) -> Result<Vec<u8>> {
        let mut open = BTreeMap::new();
        for (name, table) in &mut self.tables {
            open.insert(name, table.save()?);
        }
        state::to_bytes(&open)
    }

    fn load_state(&mut self, bytes: &[u8]) -> Result<()> {
        let saved: BTreeMap<String, Saved> = state::from_bytes(bytes)?;
        let mut files = Vec::with_capacity(saved.len());
        for (name, saved) in saved {
            if !is_file_name(&name) {
                bail!("the state names the file {name:?}, which is not a table of a phase");
            }
            saved.check(&name)?;
            files.push((path_inside(&self.directory, &name)?, name, saved));
        }
        // Nothing is changed until the entire state is validated.
        self.tables.clear();
        for (path, name, saved) in files {
            let table = Table::resume(path, &self.config, saved)?;
            self.tables.insert(name, table);
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        let row = Row {
            epoch: task.epoch(),
            iteration: task.iteration(),
            update: task.update(),
            learning_rate: task.learning_rate(),
            elapsed: task.elapsed().as_secs_f64(),
            metrics: task.metrics_of(task.phase()).collect(),
        };
        let name = file_name(task.phase().name(), task.stream());
        for warning in self.write(name, &row)? {
            task.warn(warning);
        }
        Ok(())
    }
}

impl Csv {
    fn write(&mut self, name: String, row: &Row<'_>) -> Result<Vec<String>> {
        if let Some(table) = self.tables.get_mut(&name) {
            return table.write(row, &self.config);
        }
        let path = path_inside(&self.directory, &name)?;
        let mut table = Table::open(path, row, &self.config)?;
        let warnings = table.write(row, &self.config)?;
        self.tables.insert(name, table);
        Ok(warnings)
    }
}

/// Returns `val.csv`, or `val-clean.csv` if the data set has a name of its own.
fn file_name(phase: &str, stream: &str) -> String {
    if stream == phase || stream.is_empty() {
        return format!("{phase}.csv");
    }
    let stream: String = stream
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    format!("{phase}-{stream}.csv")
}

fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Returns whether [`file_name`] yields this name for some phase and data set.
fn is_file_name(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".csv") else {
        return false;
    };
    Phase::ALL.iter().any(|phase| {
        let rest = stem.strip_prefix(phase.name());
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.len() > 1 && rest.starts_with('-') && rest.chars().all(is_plain)
        })
    })
}

export_plugin!(Csv);

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn files_are_named_after_phase_and_data_set() {
        let cases = [
            ("val", "val.csv"),
            ("", "val.csv"),
            ("clean", "val-clean.csv"),
            ("../a b", "val-.._a_b.csv"),
        ];
        for (stream, expected) in cases {
            assert_eq!(file_name("val", stream), expected);
            assert!(is_file_name(expected), "{expected}");
        }
        for other in [
            "",
            "x.csv",
            "val",
            "val/x.csv",
            "../val.csv",
            "/val.csv",
            "val-.csv",
            "valx.csv",
        ] {
            assert!(!is_file_name(other), "{other}");
        }
    }

    /// Losses by epoch and an accuracy in validation; iterations of 10 s.
    fn run() -> ScriptedRun {
        ScriptedRun::new()
            .epochs(2)
            .initial_validation()
            .seconds_per_iteration(10.0)
            .metric(Phase::Train, "loss", |epoch| 1.0 / epoch as f64)
            .metric(Phase::Val, "loss", |epoch| 3.0 - epoch as f64)
            .metric(Phase::Val, "accuracy", |epoch| 0.25 * epoch as f64)
    }

    #[test]
    fn each_pass_has_a_row_in_the_file_of_its_phase() -> std::result::Result<(), Failed> {
        let seen = run().drive::<Csv>(json!({}))?;
        let val = "epoch,iteration,update,learning_rate,loss,accuracy\n\
               0,0,0,0.1,3,0\n1,4,4,0.1,2,0.25\n2,8,8,0.1,1,0.5\n";
        assert_eq!(seen.file("val.csv").unwrap(), val);
        let train = "epoch,iteration,update,learning_rate,loss\n1,4,4,0.1,1\n2,8,8,0.1,0.5\n";
        assert_eq!(seen.file("train.csv").unwrap(), train);
        // A resumed run continues behind the rows of its first part.
        let seen = run().interrupt_after(6).drive::<Csv>(json!({}))?;
        assert_eq!(seen.file("val.csv").unwrap(), val);
        assert_eq!(seen.file("train.csv").unwrap(), train);
        Ok(())
    }

    #[test]
    fn chosen_columns_are_written_as_configured() -> std::result::Result<(), Failed> {
        let config = json!({
            "directory": "tables", "variables": ["accuracy", "loss"], "delimiter": ";",
            "default_value": "-", "on_missing": "warn", "elapsed": true,
        });
        let seen = run().drive::<Csv>(config)?;
        assert_eq!(
            seen.file("tables/train.csv").unwrap(),
            "epoch;iteration;update;learning_rate;elapsed;accuracy;loss\n\
         1;4;4;0.1;40;-;1\n2;8;8;0.1;80;-;0.5\n"
        );
        let file = seen.run_directory().join("tables/train.csv");
        let warning = format!(
            "the metric `accuracy` has no value for `{}`",
            file.display()
        );
        assert_eq!(seen.warnings(), [warning.as_str()]);
        let config = json!({"variables": ["accuracy"], "on_missing": "error"});
        let failed = run().drive::<Csv>(config).unwrap_err();
        assert!(
            failed
                .message
                .starts_with("the metric `accuracy` has no value"),
            "{failed}"
        );
        Ok(())
    }
}
