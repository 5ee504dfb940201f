//! Rows of other tables as inputs of the same model: a whole table, `labelled` rows to evaluate it, or rows that arrive one after the
//! other (`row_stream`).

mod labelled;
pub(super) mod row_stream;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::config::OnUnknown;
use super::date::Day;
use super::encoding::encoder::{ColumnEncoder, Encoder};
use super::rows::{self, EncodedRows};
use super::split_rows::SplitRows;
use super::table::Table;
use super::target::TargetColumns;
use super::{CsvError, TableFormat};
use crate::dataset::input::{InputDescription, InputNotes, OpenedInput};
use crate::numbers::{NumberDataset, Samples};
use crate::{DataError, TargetScaling, Targets};

/// Source of the column names, in messages about other files.
pub(super) const TRAINING_FILE: &str = "the training file";

/// What was learnt from a table: its format, columns and their encoding, and the targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredTransform", into = "StoredTransform")]
pub struct CsvTransform {
    pub(super) format: TableFormat,
    pub(super) encoder: Arc<Encoder>,
    pub(super) target: TargetColumns,
    /// Scaling of the targets, if they are scaled.
    pub(super) scaling: Option<TargetScaling>,
    /// Column of the rows' weights in the loss, if they have any.
    pub(super) weight: Option<String>,
    /// Other columns of the training file.
    pub(super) ignored: Vec<String>,
    /// Rows of each part, which are kept in a file of their own.
    pub(super) rows: Option<Arc<SplitRows>>,
}

/// Serialised form of a transform.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTransform {
    format: TableFormat,
    /// Number of the model's inputs, for comparison.
    width: usize,
    encoder: Encoder,
    target: TargetColumns,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scaling: Option<TargetScaling>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight: Option<String>,
    ignored: Vec<String>,
}

impl From<CsvTransform> for StoredTransform {
    fn from(transform: CsvTransform) -> StoredTransform {
        StoredTransform {
            format: transform.format,
            width: transform.encoder.width(),
            encoder: transform.encoder.as_ref().clone(),
            target: transform.target,
            scaling: transform.scaling,
            weight: transform.weight,
            ignored: transform.ignored,
        }
    }
}

impl TryFrom<StoredTransform> for CsvTransform {
    type Error = String;

    fn try_from(stored: StoredTransform) -> Result<CsvTransform, String> {
        stored.encoder.check()?;
        let width = stored.encoder.width();
        if stored.width != width {
            return Err(format!(
                "the columns have {width} inputs together, but `width` is {}",
                stored.width
            ));
        }
        stored
            .format
            .delimiter()
            .map_err(|error| error.to_string())?;
        if stored.scaling.is_some() && !matches!(stored.target.targets, Targets::Numbers(_)) {
            return Err("only numbers are scaled as targets".to_owned());
        }
        let scaled = stored.scaling.as_ref().map(TargetScaling::len);
        if scaled.is_some_and(|scaled| scaled != stored.target.names.len()) {
            return Err("each target has its scaling, or none".to_owned());
        }
        let transform = CsvTransform {
            format: stored.format,
            encoder: Arc::new(stored.encoder),
            target: stored.target,
            scaling: stored.scaling,
            weight: stored.weight,
            ignored: stored.ignored,
            rows: None,
        };
        let names: Vec<String> = transform.known_columns().cloned().collect();
        match super::table::twice(&names) {
            None => Ok(transform),
            Some(name) => Err(format!("the column `{name}` is listed twice")),
        }
    }
}

impl CsvTransform {
    pub(super) fn new(
        format: TableFormat,
        encoder: Arc<Encoder>,
        target: TargetColumns,
        scaling: Option<TargetScaling>,
        weight: Option<String>,
        table: &Table,
    ) -> CsvTransform {
        let mut transform = CsvTransform {
            format,
            encoder,
            target,
            scaling,
            weight,
            ignored: Vec::new(),
            rows: None,
        };
        transform.ignored = transform.added(table.names.iter());
        transform
    }

    /// Returns the encoder of records.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// Returns the targets.
    pub fn targets(&self) -> &Targets {
        &self.target.targets
    }

    /// Returns the scaling of the targets, if they are scaled.
    pub fn target_scaling(&self) -> Option<&TargetScaling> {
        self.scaling.as_ref()
    }

    /// Returns the names of the target columns, which an input may lack.
    pub fn target_columns(&self) -> &[String] {
        &self.target.names
    }

    /// Returns the names of all columns of the training file.
    fn known_columns(&self) -> impl Iterator<Item = &String> {
        let inputs = self.encoder.columns.iter().map(ColumnEncoder::name);
        inputs.chain(&self.target.names).chain(&self.ignored)
    }

    /// Returns the names that the training file doesn't have.
    pub(super) fn added<'a>(&self, names: impl Iterator<Item = &'a String>) -> Vec<String> {
        let known: HashSet<&String> = self.known_columns().collect();
        let added = names.filter(|name| !known.contains(name));
        added.cloned().collect()
    }

    /// Returns the positions of the inputs among the columns of another table, and notes the columns that the training
    /// file didn't have.
    ///
    /// Without a header columns have only a position: there must be as many as in the training file, or the targets
    /// missing at the end.
    pub(super) fn places(
        &self,
        names: &[String],
        file: &Path,
        notes: &mut InputNotes,
    ) -> Result<Vec<usize>, CsvError> {
        if !self.format.header {
            let wanted = self.known_columns().count();
            let target = &self.target.names;
            let found = names.len();
            let are_targets_last =
                found + target.len() == wanted && target.iter().all(|name| !names.contains(name));
            if found != wanted && !are_targets_last {
                return Err(CsvError::Width {
                    file: file.to_owned(),
                    wanted,
                    found,
                });
            }
        }
        notes.added_columns = self.added(names.iter());
        let places: HashMap<&String, usize> = names.iter().zip(0..).collect();
        let columns = self.encoder.columns.iter();
        columns
            .map(|column| {
                let place = places.get(column.name()).copied();
                place.ok_or_else(|| CsvError::UnknownColumn {
                    key: TRAINING_FILE,
                    name: column.name().clone(),
                    file: file.to_owned(),
                    header: self.format.header,
                    known: names.to_vec(),
                })
            })
            .collect()
    }

    /// Opens a table for predictions, with all of its rows. Targets are known if all rows have valid ones.
    pub(crate) fn open(&self, file: &Path) -> Result<OpenedInput, DataError> {
        let mut notes = InputNotes::default();
        let table = Table::read(file, self.format)?;
        let places = self.places(&table.names, file, &mut notes)?;
        let count = table.count();
        let encoded = EncodedRows {
            unknown: OnUnknown::Error,
            notes: &mut notes,
        };
        let all: Vec<usize> = (0..count).collect();
        let inputs = rows::encode(&table, &places, &all, &self.encoder, encoded)?;
        let known = self.target.places(&table, TRAINING_FILE);
        let known = known.and_then(|places| self.target.values(&table, &places, &all));
        let has_targets = known.is_ok();
        let samples = Samples {
            inputs: inputs.into(),
            shape: vec![self.encoder.width()],
            values: known.unwrap_or_else(|_| self.target.nothing(count)),
            count,
        };
        let samples =
            NumberDataset::all(samples, self.targets().clone()).containing(self.encoder.inputs());
        Ok(OpenedInput {
            samples: Arc::new(samples.of_input_file(has_targets)),
            notes,
        })
    }

    /// Describes each column.
    pub(crate) fn describe_inputs(&self) -> Vec<InputDescription> {
        let columns = self.encoder.columns.iter();
        columns.map(ColumnEncoder::describe).collect()
    }
}

impl ColumnEncoder {
    fn describe(&self) -> InputDescription {
        const SHOWN: usize = 20;
        let (kind, values) = match self {
            ColumnEncoder::Number(column) => {
                let [min, max] = column.seen.map(|seen| seen.0);
                let missing = match column.missing {
                    Some(value) => format!("; missing: {}", value.0),
                    None => "; never missing".to_owned(),
                };
                ("number", format!("from {min} to {max}{missing}"))
            }
            ColumnEncoder::Category(column) => {
                let categories = column.categories.texts();
                let shown = categories.iter().take(SHOWN);
                let shown: Vec<String> = shown.map(|text| format!("`{text}`")).collect();
                let more = match categories.len().saturating_sub(SHOWN) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                ("category", format!("{}{more}", shown.join(", ")))
            }
            ColumnEncoder::Date(column) if column.has_days => {
                let [first, last] = column.seen.map(|seen| Day(seen.0));
                ("date", format!("from {first} to {last}"))
            }
            ColumnEncoder::Date(_) => ("time", "hours and minutes".to_owned()),
        };
        InputDescription {
            name: self.name().clone(),
            kind: kind.to_owned(),
            values,
        }
    }
}
