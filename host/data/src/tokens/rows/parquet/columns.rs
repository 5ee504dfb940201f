//! The values of a column: one of each row, or those of a list of structures.

use std::sync::Arc;

use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;
use serde_json::{Map, Value};

use super::source::Source;
use crate::files::watched_file::WatchedFile;

/// Most values of the rows that are read at once.
const MOST_ELEMENTS: usize = 1 << 20;

/// A column of a group of rows.
pub(super) struct Column {
    leaf: Leaf,
    reader: ColumnReader,
}

/// Where a column's values belong.
pub(super) struct Leaf {
    /// Key of the row.
    key: String,
    /// Key of the structures in the row's list; none if the row has the value itself.
    of_elements: Option<String>,
    /// Level of a value that is there.
    whole: i16,
    /// Level of a structure that is there, whether it has a value or not.
    present: i16,
}

/// What was read of a column: the levels tell which values are missing, and where rows begin.
#[derive(Default)]
struct Levels {
    values: Vec<Value>,
    defined: Vec<i16>,
    repeated: Vec<i16>,
}

impl Leaf {
    /// Where a column's values belong; none if it is neither a row's own value nor one of a list of structures.
    pub(super) fn of(column: &ColumnDescriptor) -> Option<Leaf> {
        let is_read = !matches!(
            column.physical_type(),
            Type::INT96 | Type::FIXED_LEN_BYTE_ARRAY
        );
        let parts = column.path().parts();
        let whole = column.max_def_level();
        let of_elements = match (parts, column.max_rep_level()) {
            ([_], 0) => None,
            // The list, its elements, and a key of theirs.
            ([_, _, _, key], 1) => Some(key.clone()),
            _ => return None,
        };
        is_read.then_some(Leaf {
            key: parts.first()?.clone(),
            of_elements,
            whole,
            present: whole - i16::from(column.self_type().is_optional()),
        })
    }
}

impl Column {
    /// Opens a column whose pages were looked at.
    pub(super) fn open(
        file: &Arc<WatchedFile>,
        chunk: &ColumnChunkMetaData,
        rows: u64,
    ) -> Result<Column, String> {
        let leaf = Leaf::of(chunk.column_descr()).ok_or("a column has another type")?;
        let rows = usize::try_from(rows).map_err(|error| error.to_string())?;
        let pages = SerializedPageReader::new(Arc::new(Source::new(file)), chunk, rows, None);
        let pages = pages.map_err(|error| error.to_string())?;
        Ok(Column {
            leaf,
            reader: get_column_reader(chunk.column_descr_ptr(), Box::new(pages)),
        })
    }

    /// Adds the values of the next rows to these.
    pub(super) fn read_into(&mut self, rows: &mut [Map<String, Value>]) -> Result<(), String> {
        let levels = self.levels(rows.len());
        let levels = levels.map_err(|problem| format!("`{}`: {problem}", self.leaf.key))?;
        match &self.leaf.of_elements {
            None => self.add_values(levels, rows),
            Some(element) => self.add_elements(element, levels, rows),
        }
    }

    fn levels(&mut self, rows: usize) -> Result<Levels, String> {
        match &mut self.reader {
            ColumnReader::BoolColumnReader(reader) => read(reader, rows, |value| Ok(value.into())),
            ColumnReader::Int32ColumnReader(reader) => read(reader, rows, |value| Ok(value.into())),
            ColumnReader::Int64ColumnReader(reader) => read(reader, rows, |value| Ok(value.into())),
            ColumnReader::FloatColumnReader(reader) => read(reader, rows, |value| Ok(value.into())),
            ColumnReader::DoubleColumnReader(reader) => {
                read(reader, rows, |value| Ok(value.into()))
            }
            ColumnReader::ByteArrayColumnReader(reader) => read(reader, rows, |value| {
                let text = std::str::from_utf8(value.data());
                text.map(Value::from)
                    .map_err(|_| "a text is not UTF-8".to_owned())
            }),
            _ => Err("this type is not read".to_owned()),
        }
    }

    /// Gives each row its own value.
    fn add_values(&self, levels: Levels, rows: &mut [Map<String, Value>]) -> Result<(), String> {
        let Leaf { key, whole, .. } = &self.leaf;
        let mut values = levels.values.into_iter();
        for (index, row) in rows.iter_mut().enumerate() {
            let is_there = *whole == 0 || levels.defined.get(index) == Some(whole);
            let value = if is_there {
                values.next()
            } else {
                Some(Value::Null)
            };
            let value =
                value.ok_or_else(|| format!("`{key}` has fewer values than there are rows"))?;
            row.insert(key.clone(), value);
        }
        Ok(())
    }

    /// Gives the structures in each row's list a value of theirs.
    fn add_elements(
        &self,
        element: &str,
        levels: Levels,
        rows: &mut [Map<String, Value>],
    ) -> Result<(), String> {
        let Leaf {
            key,
            whole,
            present,
            ..
        } = &self.leaf;
        let damaged = || format!("`{key}`: its lists and their elements do not fit each other");
        let mut values = levels.values.into_iter();
        let mut rows = rows.iter_mut();
        let mut own: Vec<Value> = Vec::new();
        let mut row = None;
        for (defined, repeated) in levels.defined.iter().zip(&levels.repeated) {
            if *repeated == 0 {
                finish(row, key, element, std::mem::take(&mut own)).ok_or_else(damaged)?;
                row = Some(rows.next().ok_or_else(damaged)?);
            }
            if defined >= present {
                let is_there = defined == whole;
                let value = if is_there {
                    values.next()
                } else {
                    Some(Value::Null)
                };
                own.push(value.ok_or_else(damaged)?);
            }
        }
        finish(row, key, element, own).ok_or_else(damaged)?;
        match rows.next() {
            None => Ok(()),
            Some(_) => Err(damaged()),
        }
    }
}

/// Adds the values of a key to the structures of a row's list; none if there are not as many. Before the first row there is nothing.
fn finish(
    row: Option<&mut Map<String, Value>>,
    key: &str,
    element: &str,
    values: Vec<Value>,
) -> Option<()> {
    let Some(row) = row else {
        return Some(());
    };
    if !row.contains_key(key) {
        let empty = vec![Value::Object(Map::new()); values.len()];
        row.insert(key.to_owned(), Value::Array(empty));
    }
    let list = row.get_mut(key)?.as_array_mut()?;
    if list.len() != values.len() {
        return None;
    }
    for (structure, value) in list.iter_mut().zip(values) {
        structure.as_object_mut()?.insert(element.to_owned(), value);
    }
    Some(())
}

/// Reads the values of so many rows.
fn read<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    value: impl Fn(T::T) -> Result<Value, String>,
) -> Result<Levels, String> {
    let mut levels = Levels::default();
    let mut left = rows;
    while left > 0 {
        let mut values = Vec::new();
        let read = reader.read_records(
            left,
            Some(&mut levels.defined),
            Some(&mut levels.repeated),
            &mut values,
        );
        let (records, ..) = read.map_err(|error| error.to_string())?;
        for found in values {
            levels.values.push(value(found)?);
        }
        if records == 0 {
            return Err("its values end before the rows".to_owned());
        }
        if levels.repeated.len() > MOST_ELEMENTS {
            return Err(format!(
                "{rows} rows have more than {MOST_ELEMENTS} elements"
            ));
        }
        left = left.saturating_sub(records);
    }
    Ok(levels)
}
