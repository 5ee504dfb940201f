//! The rows of a file, whatever it is: lines, or a Parquet file, which its first bytes tell.

use std::path::Path;

use serde_json::{Map, Value};

use super::lines::{Content, Line, Lines, wrong};
use super::parquet::{MAGIC, ParquetRows};
use crate::error::{DataError, unreadable};
use crate::files::watched_file::WatchedFile;

/// Rows that are read one after the other.
pub(super) enum RowSource {
    /// A JSON object on each line.
    Lines(Lines),
    /// Columns of a table.
    Parquet(Box<ParquetRows>),
}

impl RowSource {
    /// Opens a file, of whose columns these are read; all if there are none.
    pub(super) fn open(path: &Path, names: Option<&[&str]>) -> Result<RowSource, DataError> {
        Ok(if is_parquet(path)? {
            RowSource::Parquet(Box::new(ParquetRows::open(path, names)?))
        } else {
            RowSource::Lines(Lines::open(path)?)
        })
    }

    /// The object of the first row.
    pub(super) fn first(self, path: &Path) -> Result<Map<String, Value>, DataError> {
        let mut source = self;
        let first = source.some()?.into_iter().next();
        let first = first.ok_or_else(|| wrong(path, 1, "there are no rows".to_owned()))?;
        let Line { number, content } = first;
        content
            .object()
            .map_err(|problem| wrong(path, number, problem))
    }

    /// The next rows; none at the end.
    pub(super) fn some(&mut self) -> Result<Vec<Line>, DataError> {
        match self {
            RowSource::Lines(lines) => lines.some(),
            RowSource::Parquet(rows) => {
                let (first, rows) = rows.some()?;
                let lines = (first..).zip(rows).map(|(number, row)| Line {
                    number,
                    content: Content::Object(row),
                });
                Ok(lines.collect())
            }
        }
    }
}

fn is_parquet(path: &Path) -> Result<bool, DataError> {
    // What can only be read once is read as lines.
    let file = WatchedFile::open(path).map_err(|error| unreadable(path, error))?;
    let Some(file) = file.filter(|file| file.length() >= MAGIC.len() as u64) else {
        return Ok(false);
    };
    let mut first = [0; MAGIC.len()];
    let read = file.read_at(0, &mut first);
    read.map_err(|problem| problem.of_file(path))?;
    Ok(first == MAGIC)
}
