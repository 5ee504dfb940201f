//! Tables (CSV and similar formats): numeric and categorical columns become inputs, a column of
//! classes or numeric columns the targets.
//!
//! Statistics (means, standard deviations, categories) come from the training rows only; the kind of
//! a column (numeric or categorical) and the classes of the target come from the complete training
//! file.

mod columns;
mod config;
mod encoder;
mod error;
mod quotes;
mod report;
mod rows;
mod scan;
mod table;
mod target;

use std::path::Path;
use std::sync::Arc;

pub use config::{CsvConfig, Names, OnMissing, OnMissingTarget, TargetKind};
pub use encoder::{ColumnEncoder, Encoder, Encoding, MissingCategory};
pub use error::CsvError;
pub use report::{ColumnReport, Contents, CsvReport};

use super::numbers::{NumberDataset, Opener, PredictionRows, Samples, TargetValues};
use super::split::{self, Part};
use super::{Dataset, Splits};
use columns::TARGET;
use rows::Used;
use scan::Missing;
use table::Table;
use target::TargetColumns;

/// Source of the column names, in messages about other files.
const TRAINING_FILE: &str = "the training file";

/// A table after reading, splitting and encoding.
pub struct CsvData {
    /// Data sets of the phases.
    pub splits: Splits,
    /// Encoder of records, fitted to the training rows.
    pub encoder: Encoder,
    /// Description of the training file.
    pub report: CsvReport,
}

/// Reads a table. Relative paths start at `base`; splits come from `seed`.
///
/// # Errors
///
/// Errors in files, columns or splits.
pub fn read(config: &CsvConfig, base: &Path, seed: u64) -> Result<CsvData, super::DataError> {
    let missing = Missing::new(&config.missing);
    let table = Table::read(&base.join(&config.file), config)?;
    let columns = columns::inputs(&table, config, &missing)?;
    let target = TargetColumns::of(&table, config, &missing)?;
    let places: Vec<usize> = columns.iter().map(|column| column.place).collect();
    let target_places = target.places(&table, TARGET)?;
    let used = Used::of(&table, &places, &target_places, config)?;
    let values = target.values(&table, &target_places, &used.rows)?;
    let total = used.rows.len();
    let val = split::portion(config.val.as_ref(), "val", total)?;
    let test = split::portion(config.test.as_ref(), "test", total)?;
    let parts = match (&values, config.stratified) {
        (TargetValues::Classes(classes), true) => {
            split::stratified(seed, classes, val.taken(), test.taken())?
        }
        (TargetValues::Numbers(_) | TargetValues::Inputs, true) => {
            return Err(super::DataError::NotStratified);
        }
        (_, false) => split::split(seed, total, val.taken(), test.taken())?,
    };
    let row = |&index: &u32| used.rows.get(index as usize).copied();
    let training: Vec<usize> = parts.train.iter().filter_map(row).collect();
    let encoder = Arc::new(Encoder::fit(&table, &columns, &training, config));
    let report = CsvReport::new(
        &table,
        &columns,
        &target,
        &target_places,
        &used,
        &missing,
        config.target_kind.is_some(),
    );
    let inputs = rows::encode(&table, &places, used.rows.iter().copied(), &encoder)?;
    let samples = Arc::new(samples(inputs, values, total, &encoder));
    let opener = opener(config.clone(), target.clone(), Arc::clone(&encoder));
    let dataset = |samples: &Arc<Samples>, indices: Vec<u32>, rows: &Arc<[usize]>| {
        NumberDataset::new(Arc::clone(samples), indices, target.targets.clone())
            .of_rows(Arc::clone(rows))
            .with_opener(Arc::clone(&opener))
    };
    let rows: Arc<[usize]> = used.rows.into();
    let phase =
        |part: &Part<&Path>, indices| -> Result<Option<Arc<dyn Dataset>>, super::DataError> {
            Ok(match part {
                Part::Nothing => None,
                Part::Count(_) => Some(Arc::new(dataset(&samples, indices, &rows))),
                Part::Own(file) => {
                    let (own, rows) = own_file(&base.join(file), config, &target, &encoder)?;
                    let indices = (0..own.count as u32).collect();
                    Some(Arc::new(dataset(&Arc::new(own), indices, &rows.into())))
                }
            })
        };
    let lines = report.to_string().lines().map(str::to_owned).collect();
    let splits = Splits {
        train: Arc::new(dataset(&samples, parts.train, &rows).with_description(lines)),
        val: phase(&val, parts.val)?,
        test: phase(&test, parts.test)?,
    };
    let encoder = encoder.as_ref().clone();
    Ok(CsvData {
        splits,
        encoder,
        report,
    })
}

/// Reads the data sets only.
pub(super) fn load(config: &CsvConfig, base: &Path, seed: u64) -> Result<Splits, super::DataError> {
    read(config, base, seed).map(|data| data.splits)
}

fn samples(inputs: Vec<f32>, values: TargetValues, count: usize, encoder: &Encoder) -> Samples {
    Samples {
        inputs,
        shape: vec![encoder.width()],
        values,
        count,
    }
}

/// Returns the indices of the encoder's columns in another file.
fn places(table: &Table, encoder: &Encoder) -> Result<Vec<usize>, CsvError> {
    let columns = encoder.columns.iter();
    columns
        .map(|column| table.column(&column.name, TRAINING_FILE))
        .collect()
}

/// Returns the samples of a phase's separate file, and the rows that they come from.
fn own_file(
    file: &Path,
    config: &CsvConfig,
    target: &TargetColumns,
    encoder: &Encoder,
) -> Result<(Samples, Vec<usize>), super::DataError> {
    let table = Table::read(file, config)?;
    let places = places(&table, encoder)?;
    let target_places = target.places(&table, TRAINING_FILE)?;
    let used = Used::of(&table, &places, &target_places, config)?;
    let values = target.values(&table, &target_places, &used.rows)?;
    let inputs = rows::encode(&table, &places, used.rows.iter().copied(), encoder)?;
    let samples = samples(inputs, values, used.rows.len(), encoder);
    Ok((samples, used.rows))
}

/// Returns the reader of files for predictions, which uses all rows, with or without targets. Targets
/// are known if all rows have valid ones.
fn opener(config: CsvConfig, target: TargetColumns, encoder: Arc<Encoder>) -> Opener {
    Arc::new(move |file: &Path| {
        let table = Table::read(file, &config)?;
        let places = places(&table, &encoder)?;
        let count = table.rows.len();
        let inputs = rows::encode(&table, &places, 0..count, &encoder)?;
        let all: Vec<usize> = (0..count).collect();
        let known = target.places(&table, TARGET);
        let known = known.and_then(|places| target.values(&table, &places, &all));
        Ok(PredictionRows {
            has_targets: known.is_ok(),
            samples: samples(
                inputs,
                known.unwrap_or_else(|_| target.nothing(count)),
                count,
                &encoder,
            ),
        })
    })
}

#[cfg(test)]
mod tests;
