//! Reading of a table: column names and `rows`; its `format`, and the contents of its columns (`scan`). `quotes`: a check that they match.

pub(super) mod format;
pub(super) mod quotes;
mod rows;
pub(super) mod scan;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ReaderBuilder, StringRecord, Trim};

use super::{CsvError, TableFormat};
use crate::{parallel, signature};
use rows::Rows;

/// A table as text.
pub(super) struct Table {
    pub(super) file: PathBuf,
    /// Names of the columns, all different.
    pub(super) names: Vec<String>,
    /// Index of each name.
    places: HashMap<String, usize>,
    /// Rows without the spaces around fields.
    rows: Rows,
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
        let (first, rows) = read_rows(reader, file, format.header)?;
        let empty = || crate::DataError::Empty {
            file: file.to_owned(),
        };
        let first = first.ok_or_else(empty)?;
        let names = names(&first, format.header);
        let fields = first.iter().enumerate();
        let unnamed = fields.filter(|(_, name)| format.header && name.is_empty());
        let unnamed = unnamed.map(|(place, _)| place).collect();
        if rows.len() == 0 {
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
            places: names.iter().cloned().zip(0..).collect(),
            names,
            rows,
            header: format.header,
            unnamed,
        })
    }

    /// Returns the index of a column; `key` is the option that names it, for messages.
    pub(super) fn column(&self, name: &str, key: &'static str) -> Result<usize, CsvError> {
        let place = self.places.get(name).copied();
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

    /// Returns the number of rows.
    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of threads for work on all fields; one if there are few.
    pub(super) fn threads(&self) -> usize {
        const FIELDS: usize = 1 << 16;
        let fields = self.rows.len() * self.names.len();
        parallel::cores().min(fields.div_ceil(FIELDS))
    }

    /// Returns the text of a field; every row has all columns.
    pub(super) fn field(&self, row: usize, column: usize) -> &str {
        self.rows.field(row, column)
    }

    /// Returns the line of the file on which a row begins, from 1.
    pub(super) fn line(&self, row: usize) -> u64 {
        self.rows.line(row)
    }
}

/// Parses the records of a file, which must all have the same number of fields. Returns the first one, if there is any, and
/// the rows: all records, or all after a header.
fn read_rows(
    mut reader: csv::Reader<&[u8]>,
    file: &Path,
    header: bool,
) -> Result<(Option<StringRecord>, Rows), crate::DataError> {
    let mut first: Option<StringRecord> = None;
    let mut rows = Rows::default();
    let mut record = StringRecord::new();
    loop {
        // The same memory for all records.
        let mut bytes: ByteRecord = record.into_byte_record();
        let more = reader.read_byte_record(&mut bytes);
        // Reading bytes from memory with flexible record lengths cannot fail.
        let more = more.map_err(|error| crate::DataError::Read {
            file: file.to_owned(),
            source: io::Error::other(error),
        })?;
        if !more {
            return Ok((first, rows));
        }
        let line = bytes.position().map_or(0, csv::Position::line);
        let wanted = first.as_ref().map_or(bytes.len(), StringRecord::len);
        if bytes.len() != wanted {
            return Err(CsvError::Fields {
                file: file.to_owned(),
                line,
                wanted,
                found: bytes.len(),
            }
            .into());
        }
        let name = |place| name_at(first.as_ref(), header, place);
        let is_nul = |field: &[u8]| memchr::memchr(0, field).is_some();
        if is_nul(bytes.as_slice())
            && let Some(place) = bytes.iter().position(is_nul)
        {
            return Err(CsvError::Nul {
                file: file.to_owned(),
                line,
                name: name(place),
            }
            .into());
        }
        let text = StringRecord::from_byte_record(bytes);
        record = text.map_err(|error| CsvError::NotText {
            file: file.to_owned(),
            line,
            name: name(error.utf8_error().field()),
        })?;
        match first {
            None => {
                first = Some(record.clone());
                if !header {
                    rows.push(&record);
                }
            }
            Some(_) => rows.push(&record),
        }
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
