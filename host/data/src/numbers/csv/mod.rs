//! Tables (CSV and similar formats): numeric and categorical columns become inputs, a column of
//! classes or numeric columns the targets.
//!
//! Statistics (means, standard deviations, categories) come from the training rows only; the kind of
//! a column (numeric or categorical) and the classes of the target come from the complete training
//! file.
//!
//! **Parts**
//! - `config`: a table in the manifest. `table`: its text, and what is in its columns; `date`: the forms of dates.
//! - `columns`: which are inputs, and of which kind; `encoding` makes numbers of them, `target` of the target's.
//! - `rows`: which are used. `split_rows`: which were trained on, to be found again in another table.
//! - `report`, `survey`: what a table has in it. `transform`: rows of other tables.
//!
//! **Flow.** Read the table → scan the columns → choose them and their kinds → choose the rows of the parts → fit the encoding to the
//! training rows → encode all.

mod columns;
mod config;
mod date;
mod encoding;
mod report;
mod rows;
mod split_rows;
mod survey;
mod table;
mod target;
mod transform;

use std::path::Path;
use std::sync::Arc;

pub use crate::error::{CsvError, UnknownCategory};
pub use config::{
    CsvConfig, DateOrder, Embedded, Names, OnMissing, OnMissingTarget, OnUnknown, TargetKind,
    default_missing,
};
pub use encoding::category_column::{Categories, CategoryColumn, MissingCategory};
pub use encoding::date_column::DateColumn;
pub use encoding::encoder::{ColumnEncoder, Encoder};
pub use encoding::number_column::NumberColumn;
pub use report::{ColumnReport, Contents, CsvReport};
pub use split_rows::{LARGEST_ROWS, ROWS, RowsOf, SplitRows};
pub use survey::{ColumnSurvey, TableSurvey, survey};
pub use transform::CsvTransform;
pub use transform::row_stream::{Row, RowError, RowProblem, RowStream, RowTarget};

use super::{NumberDataset, Samples, TargetValues};
use crate::dataset::fitted::Fitted;
use crate::dataset::input::InputNotes;
use crate::files::data_files::{RowHasher, is_recording, note_rows};
use crate::split::{self, Part, Parts, Taken};
use crate::{Dataset, TargetScaling};
use columns::{GROUP, TARGET, WEIGHT};
use rows::{EncodedRows, Used};
use split_rows::{MOST_ROWS, RowHash, row_hashes};
use table::Table;
use table::format::TableFormat;
use table::scan::Missing;
use target::TargetColumns;
use transform::TRAINING_FILE;

/// A table after reading, splitting and encoding.
pub struct CsvData {
    /// Data sets of the phases.
    pub splits: Fitted<CsvTransform>,
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
pub fn read(config: &CsvConfig, base: &Path, seed: u64) -> Result<CsvData, crate::DataError> {
    check(config)?;
    let missing = Missing::new(&config.missing);
    let format = TableFormat::of(config);
    let table = Table::read(&base.join(&config.file), format)?;
    let columns = columns::inputs(&table, config, &missing)?;
    let target = TargetColumns::of(&table, config, &missing)?;
    let places: Vec<usize> = columns.iter().map(|column| column.place).collect();
    let target_places = target.places(&table, TARGET)?;
    let used = Used::of(&table, &places, &target_places, config)?;
    let mut read_places = [places.as_slice(), &target_places].concat();
    for (name, key) in [(&config.group, GROUP), (&config.weight, WEIGHT)] {
        if let Some(name) = name {
            read_places.push(table.column(name, key)?);
        }
    }
    note_fields(&table, &read_places, &used.rows);
    let values = target.values(&table, &target_places, &used.rows)?;
    let total = used.rows.len();
    let [val, test] = config.held_out.sources(total)?;
    let seed = config.held_out.seed(seed);
    let taken = (val.taken(), test.taken());
    let parts = parts(config, &table, &used.rows, &values, seed, taken)?;
    let weights = weights(config, &table, &used.rows, &parts.train)?;
    let of_targets = (target_places.as_slice(), &values);
    let scaling = scaling(config, &table, &used.rows, of_targets, &parts.train)?;
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
    let mut notes = InputNotes::default();
    let of_training_rows = of_training(&mut notes);
    let inputs = rows::encode(&table, &places, &used.rows, &encoder, of_training_rows)?;
    let samples = Arc::new(samples(inputs, values, total, &encoder));
    let weight = config.weight.clone();
    let mut transform = CsvTransform::new(
        format,
        Arc::clone(&encoder),
        target,
        scaling,
        weight,
        &table,
    );
    let mut split_rows =
        hashes(&transform, &table, &used.rows)?.map(|hashes| SplitRows::new(&hashes, &parts));
    let content = encoder.inputs();
    let dataset = |samples: &Arc<Samples>, indices: Vec<u32>, rows: &Arc<[usize]>| {
        NumberDataset::new(Arc::clone(samples), indices, transform.targets().clone())
            .containing(content.clone())
            .of_rows(Arc::clone(rows))
            .weighted(weights.clone())
    };
    let rows: Arc<[usize]> = used.rows.into();
    let mut phase = |name, part: &Part<&Path>, indices| {
        Ok::<Option<Arc<dyn Dataset>>, crate::DataError>(match part {
            Part::Nothing => None,
            Part::Count(_) | Part::Fold(_) => Some(Arc::new(dataset(&samples, indices, &rows))),
            Part::Own(file) => {
                let (own, hashes) = own_file(&base.join(file), config, &transform)?;
                if let (Some(split_rows), Some(hashes)) = (&mut split_rows, hashes) {
                    split_rows.set(name, &hashes);
                }
                Some(Arc::new(own))
            }
        })
    };
    let val = phase(RowsOf::Val, &val, parts.val)?;
    let test = phase(RowsOf::Test, &test, parts.test)?;
    let lines = report.to_string().lines().map(str::to_owned).collect();
    let train = dataset(&samples, parts.train, &rows).with_description(lines);
    transform.rows = split_rows.map(Arc::new);
    let splits = Fitted {
        train: Arc::new(train),
        val,
        test,
        learnt: transform,
    };
    let encoder = encoder.as_ref().clone();
    Ok(CsvData {
        splits,
        encoder,
        report,
    })
}

/// Checks options that are only of use beside others.
fn check(config: &CsvConfig) -> Result<(), CsvError> {
    if config.min_count.is_some() && config.on_unknown != Some(OnUnknown::Own) {
        return Err(CsvError::MinCount);
    }
    if config.date_order.is_some() && config.dates.is_empty() {
        return Err(CsvError::DateOrderAlone);
    }
    Ok(())
}

/// Selects the rows of validation and test.
fn parts(
    config: &CsvConfig,
    table: &Table,
    rows: &[usize],
    values: &TargetValues,
    seed: u64,
    taken: (Taken, Taken),
) -> Result<Parts, crate::DataError> {
    let classes = match (values, config.held_out.stratified) {
        (TargetValues::Classes(classes), true) => Some(classes.as_slice()),
        (TargetValues::Numbers(_) | TargetValues::Inputs, true) => {
            return Err(crate::DataError::NotStratified);
        }
        (_, false) => None,
    };
    if let Some(group) = &config.group {
        if classes.is_some() && !matches!(taken, (Taken::Fold(_), Taken::Count(0))) {
            return Err(crate::DataError::StratifiedGroups);
        }
        let groups = columns::groups(table, group, rows, &Missing::new(&config.missing))?;
        return split::grouped(seed, &groups, classes, taken);
    }
    match classes {
        Some(classes) => split::stratified(seed, classes, taken.0, taken.1),
        None => split::split(seed, rows.len(), taken.0, taken.1),
    }
}

/// Fits the scaling of the targets, by their places in the table and their values, if they are scaled.
fn scaling(
    config: &CsvConfig,
    table: &Table,
    rows: &[usize],
    (places, values): (&[usize], &TargetValues),
    training: &[u32],
) -> Result<Option<TargetScaling>, CsvError> {
    let Some(scale) = config.target_scaling else {
        return Ok(None);
    };
    let numbers = target::scalable(table, places, rows, values, scale)?;
    let fitted = TargetScaling::fit(scale, numbers, places.len(), training);
    Ok(Some(fitted))
}

/// Returns the weights of the rows to use, if they have any.
fn weights(
    config: &CsvConfig,
    table: &Table,
    rows: &[usize],
    training: &[u32],
) -> Result<Option<Arc<[f32]>>, crate::DataError> {
    let Some(name) = &config.weight else {
        return Ok(None);
    };
    let weights = columns::weights(table, name, rows, WEIGHT)?;
    let mut of_training = training.iter().filter_map(|&row| weights.get(row as usize));
    if of_training.all(|weight| *weight <= 0.0) {
        return Err(CsvError::NoWeight { name: name.clone() }.into());
    }
    Ok(Some(weights))
}

/// Notes what is used of a table.
fn note_fields(table: &Table, places: &[usize], rows: &[usize]) {
    if !is_recording() {
        return;
    }
    let names = places.iter().filter_map(|&place| table.names.get(place));
    let mut hasher = RowHasher::new(names.map(String::as_str));
    for &row in rows {
        for &place in places {
            hasher.add(table.field(row, place));
        }
    }
    note_rows(&table.file, hasher.finish());
}

/// Hashes rows by what is used of them, for data that are trained on; none if there are too many.
fn hashes(
    transform: &CsvTransform,
    table: &Table,
    rows: &[usize],
) -> Result<Option<Vec<RowHash>>, CsvError> {
    if !is_recording() || rows.len() > MOST_ROWS {
        return Ok(None);
    }
    let places = transform.read_places(table)?;
    Ok(Some(row_hashes(table, &places, rows.iter().copied())))
}

/// Reads the data sets only.
pub(crate) fn load(
    config: &CsvConfig,
    base: &Path,
    seed: u64,
) -> Result<Fitted<CsvTransform>, crate::DataError> {
    read(config, base, seed).map(|data| data.splits)
}

fn samples(inputs: Vec<f32>, values: TargetValues, count: usize, encoder: &Encoder) -> Samples {
    Samples {
        inputs: inputs.into(),
        shape: vec![encoder.width()],
        values,
        count,
    }
}

/// The samples of a phase's separate file, with the hashes of their rows.
fn own_file(
    file: &Path,
    config: &CsvConfig,
    transform: &CsvTransform,
) -> Result<(NumberDataset, Option<Vec<RowHash>>), crate::DataError> {
    let CsvTransform {
        format,
        encoder,
        target,
        ..
    } = transform;
    let table = Table::read(file, *format)?;
    let names = encoder.columns.iter().map(ColumnEncoder::name);
    let places = names.map(|name| table.column(name, TRAINING_FILE));
    let places: Vec<usize> = places.collect::<Result<_, _>>()?;
    let target_places = target.places(&table, TRAINING_FILE)?;
    let used = Used::of(&table, &places, &target_places, config)?;
    let mut read_places = [places.as_slice(), &target_places].concat();
    let weights = match &config.weight {
        Some(name) => {
            read_places.push(table.column(name, TRAINING_FILE)?);
            let weights = columns::weights(&table, name, &used.rows, TRAINING_FILE)?;
            Some(weights)
        }
        None => None,
    };
    note_fields(&table, &read_places, &used.rows);
    let values = target.values(&table, &target_places, &used.rows)?;
    if let Some(scale) = config.target_scaling {
        target::scalable(&table, &target_places, &used.rows, &values, scale)?;
    }
    let mut notes = InputNotes::default();
    let of_training_rows = of_training(&mut notes);
    let inputs = rows::encode(&table, &places, &used.rows, encoder, of_training_rows)?;
    let samples = samples(inputs, values, used.rows.len(), encoder);
    let hashes = hashes(transform, &table, &used.rows)?;
    let samples = NumberDataset::all(samples, target.targets.clone())
        .containing(encoder.inputs())
        .of_rows(used.rows.into())
        .weighted(weights);
    Ok((samples, hashes))
}

/// Encoding of training, validation and test rows.
fn of_training(notes: &mut InputNotes) -> EncodedRows<'_> {
    EncodedRows {
        unknown: OnUnknown::Zeros,
        notes,
    }
}

#[cfg(test)]
mod tests;
