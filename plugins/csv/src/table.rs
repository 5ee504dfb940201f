//! One file: its columns, its rows, what is known of it when a run goes on.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use sconce_plugin_api::prelude::*;

use crate::config::{Config, OnMissing};
use crate::row::{Column, Row, choose};

/// A table in a file, open at its end.
pub(crate) struct Table {
    path: PathBuf,
    writer: csv::Writer<File>,
    columns: Vec<Column>,
    /// The metrics that have been warned of: those without a column and those without a value.
    warned: Vec<String>,
}

/// What a checkpoint keeps of a table.
#[derive(Serialize, Deserialize)]
pub(crate) struct Saved {
    columns: Vec<Column>,
    warned: Vec<String>,
    /// The file's length: what a run wrote after the checkpoint it was resumed from is cut off.
    bytes: u64,
}

impl Table {
    /// Opens the table that `row` will be the next one of: the file of before the resume, that of
    /// an earlier run, or a new one, with its header.
    pub(crate) fn open(
        path: PathBuf,
        row: &Row<'_>,
        config: &Config,
        saved: Option<Saved>,
    ) -> Result<Table> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).context(Failing("make the directory", directory))?;
        }
        let bytes = fs::metadata(&path).map_or(0, |file| file.len());
        match saved {
            Some(saved) if saved.bytes <= bytes => Table::resume(path, config, saved),
            Some(saved) => Table::begin(path, config, saved.columns),
            None if config.append && bytes > 0 => Table::append(path, config),
            None => {
                let columns = choose(row, config.variables.as_deref(), config.elapsed);
                Table::begin(path, config, columns)
            }
        }
    }

    fn begin(path: PathBuf, config: &Config, columns: Vec<Column>) -> Result<Table> {
        let file = File::create(&path).context(Failing("create", &path))?;
        let mut table = Table::over(path, file, config, columns);
        let header: Vec<&str> = table.columns.iter().map(Column::name).collect();
        table
            .writer
            .write_record(&header)
            .context(Failing("write to", &table.path))?;
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
            .map(|name| Column::from(name.to_owned()))
            .collect();
        let file = open_at_end(&path)?;
        Ok(Table::over(path, file, config, columns))
    }

    fn resume(path: PathBuf, config: &Config, saved: Saved) -> Result<Table> {
        let file = open_at_end(&path)?;
        file.set_len(saved.bytes)
            .context(Failing("shorten", &path))?;
        let mut table = Table::over(path, file, config, saved.columns);
        table.warned = saved.warned;
        Ok(table)
    }

    fn over(path: PathBuf, file: File, config: &Config, columns: Vec<Column>) -> Table {
        let writer = csv::WriterBuilder::new()
            .delimiter(config.delimiter as u8)
            .from_writer(file);
        Table {
            path,
            writer,
            columns,
            warned: Vec::new(),
        }
    }

    /// Writes a row, through to the file. Returns what the user should hear of.
    pub(crate) fn write(&mut self, row: &Row<'_>, config: &Config) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        let mut record = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            if let Some(cell) = column.cell(row, config.digits) {
                record.push(cell);
                continue;
            }
            match config.on_missing {
                OnMissing::Error => bail!("{}", missing(column, &self.path)),
                OnMissing::Warn if is_new(&mut self.warned, column.name()) => {
                    warnings.push(missing(column, &self.path));
                }
                _ => {}
            }
            record.push(config.default_value.clone());
        }
        self.writer
            .write_record(&record)
            .context(Failing("write to", &self.path))?;
        self.writer
            .flush()
            .context(Failing("write to", &self.path))?;
        if config.variables.is_none() {
            warnings.extend(self.without_column(row));
        }
        Ok(warnings)
    }

    /// Warnings of metrics that came too late for a column.
    fn without_column(&mut self, row: &Row<'_>) -> Vec<String> {
        let Table {
            path,
            columns,
            warned,
            ..
        } = self;
        let has_column = |name: &str| {
            let mut metrics = columns
                .iter()
                .filter(|column| matches!(column, Column::Metric(_)));
            metrics.any(|column| column.name() == name)
        };
        let names = row.metrics.iter().map(|(name, _)| *name);
        names
            .filter(|name| !has_column(name) && is_new(warned, name))
            .map(|name| {
                let path = path.display();
                format!(
                    "the metric `{name}` is not in the header of `{path}` and is left out; \
                     list the metrics under `variables`"
                )
            })
            .collect()
    }

    /// What a checkpoint keeps.
    pub(crate) fn save(&self) -> Result<Saved> {
        let file = self.writer.get_ref().metadata();
        Ok(Saved {
            columns: self.columns.clone(),
            warned: self.warned.clone(),
            bytes: file.context(Failing("look at", &self.path))?.len(),
        })
    }
}

fn open_at_end(path: &Path) -> Result<File> {
    let file = OpenOptions::new().append(true).open(path);
    file.context(Failing("open", path))
}

/// Whether `name` is not yet in the list; it is then.
fn is_new(list: &mut Vec<String>, name: &str) -> bool {
    let is_new = !list.iter().any(|known| known == name);
    if is_new {
        list.push(name.to_owned());
    }
    is_new
}

fn missing(column: &Column, path: &Path) -> String {
    format!(
        "the metric `{column}` has no value for `{}`",
        path.display()
    )
}

/// What failed and where, as context of an error: can't open `val.csv`.
struct Failing<'path>(&'static str, &'path Path);

impl std::fmt::Display for Failing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "can't {} `{}`", self.0, self.1.display())
    }
}

#[cfg(test)]
mod tests;
