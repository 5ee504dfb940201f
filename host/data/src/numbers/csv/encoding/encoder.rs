//! Encoding of records as inputs: fitted to the training rows, then the same for all others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::category_column::{CategoryColumn, MissingCategory};
use super::date_column::DateColumn;
use super::encoding_problem::EncodingProblem;
use super::far::Far;
use super::number_column::NumberColumn;
use crate::Inputs;
use crate::dataset::input::InputNotes;
use crate::numbers::csv::columns::{Column, ColumnKind};
use crate::numbers::csv::config::OnUnknown;
use crate::numbers::csv::table::Table;
use crate::numbers::csv::table::scan::{Missing, Scan};
use crate::numbers::csv::{CsvConfig, CsvError, UnknownCategory};
use crate::parallel;
use sconce_nn::onnx::{Graph, OnnxError, Value};

/// Encodes a record, a text for each column, as the inputs of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encoder {
    /// Columns, in the order of their inputs.
    pub columns: Vec<ColumnEncoder>,
    /// Texts that mark a missing value.
    pub missing: Vec<String>,
}

/// Encodes one column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ColumnEncoder {
    /// Numbers, one input.
    Number(NumberColumn),
    /// Categories, an input for each or one for all.
    Category(CategoryColumn),
    /// Dates or times, several inputs.
    Date(DateColumn),
}

impl Encoder {
    /// Fits the encoding to the `training` rows.
    pub(in crate::numbers::csv) fn fit(
        table: &Table,
        columns: &[Column],
        training: &[usize],
        config: &CsvConfig,
    ) -> Encoder {
        let missing = Missing::new(&config.missing);
        let fitted = parallel::map(columns, table.threads(), |column| {
            let scan = Scan::of(table, column.place, training.iter().copied(), &missing);
            let name = column.name.clone();
            match column.kind {
                ColumnKind::Numeric => {
                    ColumnEncoder::Number(NumberColumn::fit(name, &scan, config))
                }
                ColumnKind::Categorical => {
                    ColumnEncoder::Category(CategoryColumn::fit(name, &scan, config))
                }
                ColumnKind::Date(form) => {
                    ColumnEncoder::Date(DateColumn::fit(name, form, &scan, config))
                }
            }
        });
        Encoder {
            columns: fitted,
            missing: config.missing.clone(),
        }
    }

    /// Returns the number of inputs.
    pub fn width(&self) -> usize {
        self.columns.iter().map(ColumnEncoder::width).sum()
    }

    /// Returns the name of each input: a column, `column=category`, or a column and a part of its dates.
    pub fn input_names(&self) -> Vec<String> {
        let columns = self.columns.iter();
        columns.flat_map(ColumnEncoder::input_names).collect()
    }

    /// Returns the content of the inputs.
    pub fn inputs(&self) -> Inputs {
        let categories = self.categories();
        if categories.iter().any(|categories| *categories > 0) {
            Inputs::Columns(categories.into())
        } else {
            Inputs::Numbers
        }
    }

    /// Returns for each input how many different categories it is the number of; 0 for a number of another kind.
    fn categories(&self) -> Vec<usize> {
        let columns = self.columns.iter();
        let of_column = |column: &ColumnEncoder| match column {
            ColumnEncoder::Category(column) if column.is_embedded => vec![column.choices()],
            column => vec![0; column.width()],
        };
        columns.flat_map(of_column).collect()
    }

    /// Encodes a record, given as a text for each column name; columns with other names are ignored.
    ///
    /// # Errors
    ///
    /// A column is absent, a text is not a number or a date where the column has these, a category is unknown, or a value
    /// is missing where the training rows had none.
    pub fn encode(&self, record: &BTreeMap<String, String>) -> Result<Vec<f32>, CsvError> {
        self.encode_noting(record, 0, &mut InputNotes::default())
    }

    /// As [`encode`](Encoder::encode), for a record on a line, with notes of values far from those of the training.
    pub(in crate::numbers::csv) fn encode_noting(
        &self,
        record: &BTreeMap<String, String>,
        line: u64,
        notes: &mut InputNotes,
    ) -> Result<Vec<f32>, CsvError> {
        let missing = Missing::new(&self.missing);
        let mut inputs = Vec::with_capacity(self.width());
        for column in &self.columns {
            let name = column.name().to_owned();
            let Some(text) = record.get(&name) else {
                let known = record.keys().cloned().collect();
                return Err(CsvError::AbsentColumn { name, known });
            };
            let text = text.trim();
            let encoded = column.encode(text, &missing, OnUnknown::Error, &mut inputs);
            let found = || text.to_owned();
            let far = encoded.map_err(|problem| match problem {
                EncodingProblem::Unknown => CsvError::RecordCategory(column.unknown(text)),
                EncodingProblem::NotANumber => CsvError::RecordNumber {
                    name,
                    found: found(),
                },
                EncodingProblem::NotADate => CsvError::RecordDate {
                    name,
                    found: found(),
                    wanted: column.wanted(),
                },
                EncodingProblem::Missing => CsvError::RecordMissing {
                    name,
                    found: found(),
                },
            })?;
            if let Some(far) = far {
                notes.add_far(|| far.at(line, column.name()));
            }
        }
        Ok(inputs)
    }

    /// All inputs side by side in a graph of ONNX, where each column is an input by its name.
    pub(crate) fn onnx(&self, graph: &mut Graph) -> Result<Value, OnnxError> {
        let missing: Vec<String> = self
            .missing
            .iter()
            .map(|text| text.trim().to_owned())
            .collect();
        let columns = self.columns.iter().map(|column| match column {
            ColumnEncoder::Number(column) => Ok(column.onnx(graph)),
            ColumnEncoder::Category(column) => Ok(column.onnx(graph, &missing)),
            ColumnEncoder::Date(column) => {
                let reason = format!(
                    "the column `{}` has dates, which ONNX can't read from text",
                    column.name
                );
                Err(OnnxError::of(graph, reason))
            }
        });
        let columns = columns.collect::<Result<Vec<Value>, OnnxError>>()?;
        Ok(graph.joined(&columns, 1))
    }

    /// Checks what was read from a file.
    pub(in crate::numbers::csv) fn check(&self) -> Result<(), String> {
        self.columns.iter().try_for_each(|column| match column {
            ColumnEncoder::Number(column) => column.check(),
            ColumnEncoder::Category(column) => column.check(),
            ColumnEncoder::Date(column) => column.check(),
        })
    }
}

impl ColumnEncoder {
    /// Returns the name of the column.
    pub fn name(&self) -> &String {
        match self {
            ColumnEncoder::Number(column) => &column.name,
            ColumnEncoder::Category(column) => &column.name,
            ColumnEncoder::Date(column) => &column.name,
        }
    }

    /// Whether a missing value can be encoded. `default` is the handling of unknown categories unless the column has its own.
    pub(in crate::numbers::csv) fn takes_missing(&self, default: OnUnknown) -> bool {
        match self {
            ColumnEncoder::Number(column) => column.missing.is_some(),
            ColumnEncoder::Category(column) => match column.missing {
                MissingCategory::Own | MissingCategory::As(_) => true,
                MissingCategory::Unseen => column.unknown.unwrap_or(default) != OnUnknown::Error,
                MissingCategory::Refused => false,
            },
            ColumnEncoder::Date(column) => {
                matches!(
                    column.missing,
                    MissingCategory::Own | MissingCategory::As(_)
                )
            }
        }
    }

    fn width(&self) -> usize {
        match self {
            ColumnEncoder::Number(_) => 1,
            ColumnEncoder::Category(column) => column.width(),
            ColumnEncoder::Date(column) => column.width(),
        }
    }

    fn input_names(&self) -> Vec<String> {
        match self {
            ColumnEncoder::Number(column) => vec![column.name.clone()],
            ColumnEncoder::Category(column) => column.input_names(),
            ColumnEncoder::Date(column) => column.input_names(),
        }
    }

    /// Appends the inputs for a text. `default` is the handling of unknown categories unless the column has its own.
    /// Returns a value that is far from those of the training rows.
    pub(in crate::numbers::csv) fn encode(
        &self,
        text: &str,
        is_missing: &Missing,
        default: OnUnknown,
        inputs: &mut Vec<f32>,
    ) -> Result<Option<Far>, EncodingProblem> {
        match self {
            ColumnEncoder::Number(column) => column.encode(text, is_missing, inputs),
            ColumnEncoder::Category(column) => {
                let encoded = column.encode(text, is_missing, default, inputs);
                encoded.map(|()| None)
            }
            ColumnEncoder::Date(column) => column.encode(text, is_missing, inputs),
        }
    }

    /// Describes a text that is none of the categories.
    pub(in crate::numbers::csv) fn unknown(&self, found: &str) -> UnknownCategory {
        match self {
            ColumnEncoder::Category(column) => {
                let known = column.categories.texts();
                UnknownCategory::new(&column.name, found, known, &column.counts)
            }
            column => UnknownCategory::new(column.name(), found, &[], &[]),
        }
    }

    /// Says what values a column of dates has.
    pub(in crate::numbers::csv) fn wanted(&self) -> &'static str {
        match self {
            ColumnEncoder::Date(column) if !column.has_days => "times such as `17:05`",
            _ => "dates such as `2024-01-31`",
        }
    }
}
