//! Selection of the rows to use, and encoding of their inputs.

use super::columns::{not_a_date, not_a_number};
use super::encoding::encoder::Encoder;
use super::encoding::encoding_problem::EncodingProblem;
use super::table::Table;
use super::table::scan::Missing;
use super::{CsvConfig, CsvError, OnMissing, OnMissingTarget, OnUnknown};
use crate::dataset::input::InputNotes;
use crate::parallel;

/// Indices of the rows to use, in their order, and the numbers of rows left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) rows: Vec<usize>,
    /// Number of rows left out because their target is missing.
    pub(super) without_target: usize,
    /// Number of rows left out because an input is missing.
    pub(super) incomplete: usize,
}

impl Used {
    /// Selects the rows that have a target, and all inputs if these are required.
    pub(super) fn of(
        table: &Table,
        inputs: &[usize],
        targets: &[usize],
        config: &CsvConfig,
    ) -> Result<Used, CsvError> {
        let missing = Missing::new(&config.missing);
        let mut used = Used {
            rows: Vec::with_capacity(table.count()),
            without_target: 0,
            incomplete: 0,
        };
        let of_these = |row, places: &[usize]| {
            let mut places = places.iter().copied();
            places.find(|&place| missing.is(table.field(row, place)))
        };
        for row in 0..table.count() {
            if let Some(place) = of_these(row, targets) {
                if config.on_missing_target == OnMissingTarget::Error {
                    return Err(is_missing(table, row, place, "data.on_missing_target"));
                }
                used.without_target += 1;
                continue;
            }
            match (config.on_missing, of_these(row, inputs)) {
                (OnMissing::Error, Some(place)) => {
                    return Err(is_missing(table, row, place, "data.on_missing"));
                }
                (OnMissing::Drop, Some(_)) => used.incomplete += 1,
                _ => used.rows.push(row),
            }
        }
        if used.rows.is_empty() {
            return Err(CsvError::NothingLeft {
                file: table.file.clone(),
            });
        }
        Ok(used)
    }
}

fn is_missing(table: &Table, row: usize, place: usize, key: &'static str) -> CsvError {
    CsvError::Missing {
        file: table.file.clone(),
        line: table.line(row),
        name: table.names.get(place).cloned().unwrap_or_default(),
        found: table.field(row, place).to_owned(),
        key,
    }
}

/// How the rows of a table are encoded.
pub(super) struct EncodedRows<'a> {
    /// Handling of unknown categories, unless the configuration sets it.
    pub(super) unknown: OnUnknown,
    pub(super) notes: &'a mut InputNotes,
}

/// Encodes the inputs of these rows, in order; `places` are the indices of the encoder's columns.
pub(super) fn encode(
    table: &Table,
    places: &[usize],
    rows: &[usize],
    encoder: &Encoder,
    EncodedRows { unknown, notes }: EncodedRows<'_>,
) -> Result<Vec<f32>, CsvError> {
    const ROWS: usize = 1 << 12;
    let pieces: Vec<&[usize]> = rows.chunks(ROWS).collect();
    let pieces = parallel::map(&pieces, table.threads(), |rows| {
        let mut notes = InputNotes::default();
        let notes_of = EncodedRows {
            unknown,
            notes: &mut notes,
        };
        Ok((encode_piece(table, places, rows, encoder, notes_of)?, notes))
    });
    let mut inputs = Vec::with_capacity(rows.len() * encoder.width());
    for piece in pieces {
        let (of_piece, its_notes) = piece?;
        inputs.extend(of_piece);
        notes.merge(its_notes);
    }
    Ok(inputs)
}

fn encode_piece(
    table: &Table,
    places: &[usize],
    rows: &[usize],
    encoder: &Encoder,
    EncodedRows { unknown, notes }: EncodedRows<'_>,
) -> Result<Vec<f32>, CsvError> {
    let missing = Missing::new(&encoder.missing);
    let mut inputs = Vec::with_capacity(rows.len() * encoder.width());
    for &row in rows {
        for (column, &place) in encoder.columns.iter().zip(places) {
            let text = table.field(row, place);
            let result = column.encode(text, &missing, unknown, &mut inputs);
            let far = result.map_err(|refusal| match refusal {
                EncodingProblem::Missing => is_missing(table, row, place, "data.on_missing"),
                EncodingProblem::NotANumber => {
                    let otherwise = "list the column in `data.categorical`";
                    not_a_number(table, row, place, otherwise)
                }
                EncodingProblem::NotADate => not_a_date(table, row, place, column.wanted()),
                EncodingProblem::Unknown => CsvError::UnknownCategory {
                    file: table.file.clone(),
                    line: table.line(row),
                    unknown: column.unknown(text),
                },
            })?;
            if let Some(far) = far {
                notes.add_far(|| far.at(table.line(row), column.name()));
            }
        }
    }
    Ok(inputs)
}
