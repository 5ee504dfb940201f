//! Rows of a Parquet file, as objects, read batch by batch.
//!
//! **Parts**
//! - `headers`: what a file says of its sizes, compared with the file, by `thrift`. `columns`: the values of a column. `source`: the
//!   file, as the crate that decodes it reads it.
//!
//! **Flow**: the columns that are wanted are read some rows at a time, page by page, of one group of rows after the other. Before a
//! group is read, the headers of its pages are looked at.

mod columns;
mod headers;
mod source;
#[cfg(test)]
mod tests;
mod thrift;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::ColumnDescriptor;
use serde_json::{Map, Value};

use self::columns::{Column, Leaf};
use self::headers::{check_column, check_footer};
use self::source::Source;
use super::lines::wrong;
use crate::error::{DataError, unreadable};
use crate::files::watched_file::WatchedFile;

pub(super) use self::headers::MAGIC;

/// Rows that are read at once.
const AT_ONCE: usize = 256;

/// The rows of a file.
pub(super) struct ParquetRows {
    file: Arc<WatchedFile>,
    description: ParquetMetaData,
    /// Indices of the columns that are read.
    wanted: Vec<usize>,
    /// The group of rows that is read next.
    next: usize,
    /// What is open of the group before.
    group: Option<Group>,
    /// Number of rows that were read.
    read: u64,
}

/// A group of rows that is being read.
struct Group {
    columns: Vec<Column>,
    left: u64,
}

impl ParquetRows {
    /// Opens a file, of which the columns with these names are read; all that can be if there are none.
    ///
    /// # Errors
    ///
    /// If it can't be read, or is not such a file.
    pub(super) fn open(path: &Path, names: Option<&[&str]>) -> Result<ParquetRows, DataError> {
        let file = WatchedFile::open(path).map_err(|error| unreadable(path, error))?;
        let file = file.ok_or_else(|| wrong(path, 0, "this is not a file".to_owned()))?;
        let file = Arc::new(file);
        let description = guarded(|| {
            check_footer(&file)?;
            let read = ParquetMetaDataReader::new().parse_and_finish(&Source::new(&file));
            read.map_err(|error| error.to_string())
        });
        let description = description.map_err(|problem| not_parquet(path, &problem))?;
        let columns = description.file_metadata().schema_descr().columns();
        let is_wanted = |column: &ColumnDescriptor| {
            let name = column.path().parts().first();
            let is_named = |names: &[&str]| name.is_some_and(|name| names.contains(&name.as_str()));
            Leaf::of(column).is_some() && names.is_none_or(is_named)
        };
        let wanted = columns.iter().enumerate();
        let wanted = wanted.filter(|(_, column)| is_wanted(column));
        let wanted = wanted.map(|(index, _)| index).collect();
        Ok(ParquetRows {
            wanted,
            description,
            file,
            next: 0,
            group: None,
            read: 0,
        })
    }

    /// The next rows, with the number of the first from 1; none at the end.
    pub(super) fn some(&mut self) -> Result<(u64, Vec<Map<String, Value>>), DataError> {
        let first = self.read + 1;
        let rows = guarded(|| self.batch());
        let rows = rows.map_err(|problem| wrong(self.file.path(), first, problem))?;
        self.read += rows.len() as u64;
        Ok((first, rows))
    }

    fn batch(&mut self) -> Result<Vec<Map<String, Value>>, String> {
        loop {
            if let Some(group) = &mut self.group
                && group.left > 0
            {
                return group.rows();
            }
            if self.next >= self.description.num_row_groups() {
                return Ok(Vec::new());
            }
            self.group = Some(self.begin(self.next)?);
            self.next += 1;
        }
    }

    /// Opens the columns of a group, after a look at the headers of their pages.
    fn begin(&self, index: usize) -> Result<Group, String> {
        let group = self
            .description
            .row_groups()
            .get(index)
            .ok_or("a group is missing")?;
        let rows = u64::try_from(group.num_rows());
        let rows = rows.map_err(|_| format!("a group has {} rows", group.num_rows()))?;
        let mut columns = Vec::with_capacity(self.wanted.len());
        for &index in &self.wanted {
            let chunk = group.columns().get(index).ok_or("a column is missing")?;
            check_column(&self.file, chunk, rows)?;
            columns.push(Column::open(&self.file, chunk, rows)?);
        }
        let is_empty = columns.is_empty();
        Ok(Group {
            columns,
            left: if is_empty { 0 } else { rows },
        })
    }
}

impl Group {
    fn rows(&mut self) -> Result<Vec<Map<String, Value>>, String> {
        let count = self.left.min(AT_ONCE as u64) as usize;
        let mut rows = vec![Map::new(); count];
        for column in &mut self.columns {
            column.read_into(&mut rows)?;
        }
        self.left -= count as u64;
        Ok(rows)
    }
}

/// The crate that decodes ends with a panic at some of what can't be in a file.
fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err("its contents are damaged".to_owned()))
}

fn not_parquet(path: &Path, problem: &str) -> DataError {
    let error = std::io::Error::other(format!("this is not a whole Parquet file: {problem}"));
    unreadable(path, error)
}
