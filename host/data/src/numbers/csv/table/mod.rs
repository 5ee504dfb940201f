//! Reading of a table: column names and rows; its `format`, and the contents of its columns (`scan`). `quotes`: a check that they match.

pub(super) mod format;
pub(super) mod quotes;
pub(super) mod scan;

use std::io;
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ReaderBuilder, StringRecord, Trim};

use super::{CsvError, TableFormat};
use crate::signature;

/// A table as text.
pub(super) struct Table {
    pub(super) file: PathBuf,
    /// Names of the columns, all different.
    pub(super) names: Vec<String>,
    /// Rows with one field per column, without the spaces around fields.
    pub(super) rows: Vec<StringRecord>,
    header: bool,
    /// Indices of the columns that the header has no name for.
    unnamed: Vec<usize>,
}

impl Table {
    /// Reads a complete file.
    pub(super) fn read(file: &Path, format: TableFormat) -> Result<Table, crate::DataError> {
        let delimiter = format.delimiter()?;
        let bytes = crate::files::file::unpacked(file)?;
        if let Some(found) = signature::of(&bytes) {
            return Err(crate::files::file::other_format(file, found, false));
        }
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        quotes::check(text, delimiter, file)?;
        let reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .from_reader(text);
        let mut rows = records(reader, file, format.header)?.into_iter();
        let empty = || crate::DataError::Empty {
            file: file.to_owned(),
        };
        let first = rows.next().ok_or_else(empty)?;
        let names = names(&first, format.header);
        let fields = first.iter().enumerate();
        let unnamed = fields.filter(|(_, name)| format.header && name.is_empty());
        let unnamed = unnamed.map(|(place, _)| place).collect();
        let rows: Vec<StringRecord> = if format.header {
            rows.collect()
        } else {
            std::iter::once(first).chain(rows).collect()
        };
        if rows.is_empty() {
            return Err(empty());
        }
        if u32::try_from(rows.len()).is_err() {
            return Err(crate::DataError::TooMany(rows.len() as u64));
        }
        if let Some(name) = twice(&names) {
            return Err(CsvError::TwoOfOneName {
                file: file.to_owned(),
                name: name.to_owned(),
            }
            .into());
        }
        Ok(Table {
            file: file.to_owned(),
            names,
            rows,
            header: format.header,
            unnamed,
        })
    }

    /// Returns the index of a column; `key` is the option that names it, for messages.
    pub(super) fn column(&self, name: &str, key: &'static str) -> Result<usize, CsvError> {
        let place = self.names.iter().position(|column| column == name);
        place.ok_or_else(|| CsvError::UnknownColumn {
            key,
            name: name.to_owned(),
            file: self.file.clone(),
            header: self.header,
            known: self.names.clone(),
        })
    }

    /// Whether the header has no name for a column.
    pub(super) fn is_unnamed(&self, column: usize) -> bool {
        self.unnamed.contains(&column)
    }

    /// Returns the text of a field; every row has all columns.
    pub(super) fn field(&self, row: usize, column: usize) -> &str {
        let row = self.rows.get(row);
        row.and_then(|row| row.get(column)).unwrap_or_default()
    }

    /// Returns the line of the file on which a row begins, from 1.
    pub(super) fn line(&self, row: usize) -> u64 {
        let position = self.rows.get(row).and_then(StringRecord::position);
        position.map_or(0, csv::Position::line)
    }
}

/// Parses the records of a file, which must all have the same number of fields.
fn records(
    mut reader: csv::Reader<&[u8]>,
    file: &Path,
    header: bool,
) -> Result<Vec<StringRecord>, crate::DataError> {
    let mut records: Vec<StringRecord> = Vec::new();
    let mut bytes = ByteRecord::new();
    loop {
        let more = reader.read_byte_record(&mut bytes);
        // Reading bytes from memory with flexible record lengths cannot fail.
        let more = more.map_err(|error| crate::DataError::Read {
            file: file.to_owned(),
            source: io::Error::other(error),
        })?;
        if !more {
            return Ok(records);
        }
        let line = bytes.position().map_or(0, csv::Position::line);
        let wanted = records.first().map_or(bytes.len(), StringRecord::len);
        if bytes.len() != wanted {
            return Err(CsvError::Fields {
                file: file.to_owned(),
                line,
                wanted,
                found: bytes.len(),
            }
            .into());
        }
        let name = |place| name_at(records.first(), header, place);
        if let Some(place) = bytes.iter().position(|field| field.contains(&0)) {
            return Err(CsvError::Nul {
                file: file.to_owned(),
                line,
                name: name(place),
            }
            .into());
        }
        let record = StringRecord::from_byte_record(bytes.clone());
        let record = record.map_err(|error| CsvError::NotText {
            file: file.to_owned(),
            line,
            name: name(error.utf8_error().field()),
        })?;
        records.push(record);
    }
}

/// Returns the name of the column at an index, once the first line has been read.
fn name_at(first: Option<&StringRecord>, header: bool, place: usize) -> String {
    let names = first.map(|first| names(first, header)).unwrap_or_default();
    let name = names.get(place).cloned();
    name.unwrap_or_else(|| by_position(place))
}

fn by_position(place: usize) -> String {
    format!("column{}", place + 1)
}

/// Returns the names of the columns; one without a name is named by its position.
pub(super) fn names(first: &StringRecord, header: bool) -> Vec<String> {
    let fields = first.iter().enumerate();
    fields
        .map(|(place, field)| match field {
            name if header && !name.is_empty() => name.to_owned(),
            _ => by_position(place),
        })
        .collect()
}

/// Returns a name that occurs twice.
pub(super) fn twice(names: &[String]) -> Option<&str> {
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort_unstable();
    let pair = sorted.windows(2).find(|pair| pair[0] == pair[1]);
    pair.and_then(|pair| pair.first()).map(|name| name.as_str())
}
