//! One table file: its columns and rows, and the state needed to resume it.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use sconce_plugin_api::prelude::*;
use sconce_plugin_api::{Restored, spreadsheet};

use crate::config::{Config, OnMissing};
use crate::row::{Column, Row, choose};

/// A table in a file, open at its end.
pub(crate) struct Table {
    log: LogFile,
    columns: Vec<Column>,
    /// Metrics that have been warned of: those without a column and those without a value.
    warned: BTreeSet<String>,
}

/// State of a table in a checkpoint.
#[derive(Serialize, Deserialize)]
pub(crate) struct Saved {
    columns: Vec<Column>,
    warned: BTreeSet<String>,
    /// Used to cut off rows written after the checkpoint from which a run resumes.
    file: LogFileState,
}

impl Saved {
    /// Rejects states that no table saves.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        if self.columns.is_empty() {
            bail!("the state's table `{name}` has no columns");
        }
        Ok(())
    }
}

impl Table {
    /// Opens the table for `row`: an earlier run's, to append to it, or a new one with its header.
    pub(crate) fn open(path: PathBuf, row: &Row<'_>, config: &Config) -> Result<Table> {
        let bytes = fs::metadata(&path).map_or(0, |file| file.len());
        if config.append && bytes > 0 {
            return Table::append(path, config);
        }
        let columns = choose(row, config.variables.as_deref(), config.elapsed);
        Table::begin(LogFile::new(path), config, columns)
    }

    fn begin(log: LogFile, config: &Config, columns: Vec<Column>) -> Result<Table> {
        let mut table = Table {
            log,
            columns,
            warned: BTreeSet::new(),
        };
        let header: Vec<String> = (table.columns.iter())
            .map(|column| spreadsheet::escaped(column.name()).into_owned())
            .collect();
        table.log.write(line(&header, config)?)?;
        Ok(table)
    }

    fn append(path: PathBuf, config: &Config) -> Result<Table> {
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(config.delimiter as u8)
            .from_path(&path)
            .context(Failing("open", &path))?;
        let header = reader
            .headers()
            .context(Failing("read the header of", &path))?;
        let columns = header
            .iter()
            .map(|name| Column::from(spreadsheet::unescaped(name).to_owned()))
            .collect();
        Ok(Table {
            log: LogFile::append(path)?,
            columns,
            warned: BTreeSet::new(),
        })
    }

    /// Restores the table of a checkpoint after a resume or a roll back, removing later rows immediately.
    /// Begins a new file if the old one is missing.
    pub(crate) fn resume(path: PathBuf, config: &Config, saved: Saved) -> Result<Table> {
        let mut log = LogFile::new(path);
        if log.restore(&saved.file)? == Restored::Lost {
            return Table::begin(log, config, saved.columns);
        }
        Ok(Table {
            log,
            columns: saved.columns,
            warned: saved.warned,
        })
    }

    /// Writes a row through to the file. Returns warnings for the user.
    pub(crate) fn write(&mut self, row: &Row<'_>, config: &Config) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let mut record = Vec::with_capacity(self.columns.len());
        let metrics = row.by_name();
        for column in &self.columns {
            if let Some(cell) = column.cell(row, &metrics, config.digits) {
                record.push(cell);
                continue;
            }
            match config.on_missing {
                OnMissing::Error => bail!("{}", missing(column, self.log.path())),
                OnMissing::Warn if is_new(&mut self.warned, column.name()) => {
                    warnings.push(missing(column, self.log.path()));
                }
                _ => {}
            }
            record.push(config.default_value.clone());
        }
        self.log.write(line(&record, config)?)?;
        if config.variables.is_none() {
            warnings.extend(self.without_column(row));
        }
        Ok(warnings)
    }

    /// Returns warnings about metrics that appeared too late for a column.
    fn without_column(&mut self, row: &Row<'_>) -> Vec<String> {
        let Table {
            log,
            columns,
            warned,
        } = self;
        let metrics = columns
            .iter()
            .filter(|column| matches!(column, Column::Metric(_)));
        let known: HashSet<&str> = metrics.map(Column::name).collect();
        let names = row.metrics.iter().map(|(name, _)| *name);
        names
            .filter(|name| !known.contains(name) && is_new(warned, name))
            .map(|name| {
                let path = log.path().display();
                format!(
                    "the metric `{name}` is not in the header of `{path}` and is left out; \
                     list the metrics under `variables`"
                )
            })
            .collect()
    }

    /// Returns the state for a checkpoint.
    pub(crate) fn save(&mut self) -> Result<Saved> {
        Ok(Saved {
            columns: self.columns.clone(),
            warned: self.warned.clone(),
            file: self.log.save()?,
        })
    }
}

/// Formats a row as a line of the file.
fn line(cells: &[String], config: &Config) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new()
        .delimiter(config.delimiter as u8)
        .from_writer(Vec::new());
    writer.write_record(cells)?;
    Ok(writer
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)?)
}

/// Adds `name` to `known`; returns whether it was new.
fn is_new(known: &mut BTreeSet<String>, name: &str) -> bool {
    !known.contains(name) && known.insert(name.to_owned())
}

fn missing(column: &Column, path: &Path) -> String {
    format!(
        "the metric `{column}` has no value for `{}`",
        path.display()
    )
}

/// Context of an error: the failed operation and the file, as in "can't open `val.csv`".
struct Failing<'path>(&'static str, &'path Path);

impl std::fmt::Display for Failing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "can't {} `{}`", self.0, self.1.display())
    }
}

#[cfg(test)]
mod tests;
