//! Rows of other tables with their targets, to evaluate a model: all of them, those of a part of the training's table, or
//! those that it didn't have.

use std::path::Path;
use std::sync::Arc;

use super::{CsvTransform, TRAINING_FILE};
use crate::DataError;
use crate::dataset::input::{InputNotes, LabelledInput, OpenedInput, RowCounts};
use crate::numbers::csv::config::OnUnknown;
use crate::numbers::csv::encoding::encoder::ColumnEncoder;
use crate::numbers::csv::rows::{self, EncodedRows};
use crate::numbers::csv::split_rows::{RowsOf, SplitRows, row_hashes};
use crate::numbers::csv::table::Table;
use crate::numbers::csv::table::scan::Missing;
use crate::numbers::csv::{CsvError, target};
use crate::numbers::{NumberDataset, Samples};

impl CsvTransform {
    /// Returns the rows of the training's table, by part; none if they are not known, or too many.
    pub fn split_rows(&self) -> Option<&SplitRows> {
        self.rows.as_deref()
    }

    /// Returns the number of rows of a part that a table lacks, or in which something has changed.
    pub(crate) fn absent_rows(
        &self,
        file: &Path,
        known: &SplitRows,
        part: RowsOf,
    ) -> Result<usize, DataError> {
        let table = Table::read(file, self.format)?;
        let hashes = row_hashes(&table, &self.read_places(&table)?, 0..table.count());
        let found = known.select(&hashes, part).len();
        Ok(known.count(part).saturating_sub(found))
    }

    /// Opens a table with targets: all of its rows, or those of a part. Rows without a target, and those with a missing
    /// value of an input that the model doesn't handle, are left out.
    pub(crate) fn open_labelled(
        &self,
        file: &Path,
        part: Option<(&SplitRows, RowsOf)>,
    ) -> Result<LabelledInput, DataError> {
        let mut notes = InputNotes::default();
        let table = Table::read(file, self.format)?;
        let places = self.places(&table.names, file, &mut notes)?;
        let targets = self.target.places(&table, TRAINING_FILE)?;
        let mut counts = RowCounts::default();
        let unknown = match part {
            // Rows of the training's table are read as the training did.
            Some((_, RowsOf::Train | RowsOf::Val | RowsOf::Test)) => OnUnknown::Zeros,
            Some((_, RowsOf::New)) | None => OnUnknown::Error,
        };
        let all = 0..table.count();
        let mut used = match part {
            None => all.collect(),
            Some((known, part)) => {
                let hashes = row_hashes(&table, &self.read_places(&table)?, all);
                let found = known.select(&hashes, part);
                if part != RowsOf::New {
                    counts.absent = known.count(part).saturating_sub(found.len());
                }
                counts.new = known.select(&hashes, RowsOf::New).len();
                if found.is_empty() {
                    return Err(CsvError::NoRowOf {
                        file: file.to_owned(),
                        part: part.described(),
                    }
                    .into());
                }
                found
            }
        };
        let needed = self.encoder.columns.iter().zip(&places);
        let needed = needed.filter(|(column, _)| !column.takes_missing(unknown));
        let needed: Vec<usize> = needed.map(|(_, &place)| place).collect();
        self.leave_out(&table, (&needed, &targets), &mut used, &mut counts);
        if used.is_empty() {
            return Err(CsvError::NothingLeft {
                file: file.to_owned(),
            }
            .into());
        }
        let values = self.target.values(&table, &targets, &used)?;
        if let Some(scaling) = &self.scaling {
            target::scalable(&table, &targets, &used, &values, scaling.scale())?;
        }
        let weights = match &self.weight {
            Some(name) if table.names.contains(name) => Some(
                crate::numbers::csv::columns::weights(&table, name, &used, TRAINING_FILE)?,
            ),
            name => {
                counts.without_weight.clone_from(name);
                None
            }
        };
        let encoded = EncodedRows {
            unknown,
            notes: &mut notes,
        };
        let inputs = rows::encode(&table, &places, &used, &self.encoder, encoded)?;
        let samples = Samples {
            inputs: inputs.into(),
            shape: vec![self.encoder.width()],
            values,
            count: used.len(),
        };
        let samples = NumberDataset::all(samples, self.targets().clone())
            .containing(self.encoder.inputs())
            .of_rows(used.into())
            .weighted(weights);
        Ok(LabelledInput {
            opened: OpenedInput {
                samples: Arc::new(samples),
                notes,
            },
            rows: counts,
            files: Vec::new(),
        })
    }

    /// Returns the positions of the columns by which rows are told apart: inputs and targets.
    pub(in crate::numbers::csv) fn read_places(
        &self,
        table: &Table,
    ) -> Result<Vec<usize>, CsvError> {
        let inputs = self.encoder.columns.iter().map(ColumnEncoder::name);
        let names = inputs.chain(&self.target.names);
        names
            .map(|name| table.column(name, TRAINING_FILE))
            .collect()
    }

    /// Leaves out rows that lack a target, or one of the inputs that are needed.
    fn leave_out(
        &self,
        table: &Table,
        (needed, targets): (&[usize], &[usize]),
        rows: &mut Vec<usize>,
        counts: &mut RowCounts,
    ) {
        let missing = Missing::new(&self.encoder.missing);
        let lacks = |row, places: &[usize]| {
            let mut places = places.iter();
            places.any(|&place| missing.is(table.field(row, place)))
        };
        rows.retain(|&row| {
            let lacks_target = lacks(row, targets);
            let lacks_input = !lacks_target && lacks(row, needed);
            counts.without_target += usize::from(lacks_target);
            counts.incomplete += usize::from(lacks_input);
            !lacks_target && !lacks_input
        });
    }
}
