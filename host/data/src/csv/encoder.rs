//! Encoding of records as inputs: fitted to the training rows, then the same for all others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::columns::{Column, ColumnKind};
use super::scan::{Missing, Scan, number};
use super::table::Table;
use super::{CsvConfig, CsvError, OnMissing};
use crate::exact::Exact;

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
#[serde(deny_unknown_fields)]
pub struct ColumnEncoder {
    /// Name of the column.
    pub name: String,
    /// Encoding of the column's values.
    pub encoding: Encoding,
}

/// Encoding of a column's values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Encoding {
    /// One input: (number − mean) / deviation.
    Number {
        /// Value to subtract: the training rows' mean, or 0 if numbers are not standardised.
        mean: Exact,
        /// Divisor: the training rows' (population) standard deviation, or 1 if numbers are not
        /// standardised or all equal.
        deviation: Exact,
        /// Replacement for a missing number; none if that is an error.
        missing: Option<Exact>,
    },
    /// One-hot encoding with an input for each category; all are 0 for a category that does not occur
    /// in the training rows.
    Category {
        /// Categories in the training rows.
        categories: Vec<String>,
        /// Handling of a missing category.
        missing: MissingCategory,
    },
}

/// Handling of a missing category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingCategory {
    /// It has its own input, after those of the categories.
    Own,
    /// It is replaced by this category.
    As(String),
    /// All inputs are 0, as for an unknown category.
    Unseen,
    /// It is an error.
    Refused,
}

/// A reason why a text can't be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EncodingProblem {
    NotANumber,
    Missing,
}

impl Encoder {
    /// Fits the encoding to the `training` rows.
    pub(super) fn fit(
        table: &Table,
        columns: &[Column],
        training: &[usize],
        config: &CsvConfig,
    ) -> Encoder {
        let missing = Missing::new(&config.missing);
        let fitted = columns.iter().map(|column| {
            let scan = Scan::of(table, column.place, training.iter().copied(), &missing);
            ColumnEncoder {
                name: column.name.clone(),
                encoding: match column.kind {
                    ColumnKind::Numeric => of_numbers(&scan, config),
                    ColumnKind::Categorical => of_categories(&scan, config.on_missing),
                },
            }
        });
        Encoder {
            columns: fitted.collect(),
            missing: config.missing.clone(),
        }
    }

    /// Returns the number of inputs.
    pub fn width(&self) -> usize {
        let columns = self.columns.iter();
        columns.map(|column| column.encoding.width()).sum()
    }

    /// Returns the name of each input: a column, or `column=category`.
    pub fn input_names(&self) -> Vec<String> {
        let columns = self.columns.iter();
        columns.flat_map(ColumnEncoder::input_names).collect()
    }

    /// Encodes a record, given as a text for each column name; columns with other names are ignored.
    ///
    /// # Errors
    ///
    /// A column is absent, a text in a numeric column is not a number, or a value is missing where the
    /// training rows had none.
    pub fn encode(&self, record: &BTreeMap<String, String>) -> Result<Vec<f32>, CsvError> {
        let missing = Missing::new(&self.missing);
        let mut inputs = Vec::with_capacity(self.width());
        for column in &self.columns {
            let name = column.name.clone();
            let Some(text) = record.get(&name) else {
                let known = record.keys().cloned().collect();
                return Err(CsvError::AbsentColumn { name, known });
            };
            let text = text.trim();
            let encoded = column.encoding.encode(text, &missing, &mut inputs);
            encoded.map_err(|refusal| match refusal {
                EncodingProblem::NotANumber => CsvError::RecordNumber {
                    name,
                    found: text.to_owned(),
                },
                EncodingProblem::Missing => CsvError::RecordMissing {
                    name,
                    found: text.to_owned(),
                },
            })?;
        }
        Ok(inputs)
    }
}

impl ColumnEncoder {
    fn input_names(&self) -> Vec<String> {
        let name = &self.name;
        match &self.encoding {
            Encoding::Number { .. } => vec![name.clone()],
            Encoding::Category {
                categories,
                missing,
            } => {
                let of_categories = categories.iter().map(|text| format!("{name}={text}"));
                let own = (*missing == MissingCategory::Own).then(|| format!("{name} is missing"));
                of_categories.chain(own).collect()
            }
        }
    }
}

impl Encoding {
    fn width(&self) -> usize {
        match self {
            Encoding::Number { .. } => 1,
            Encoding::Category {
                categories,
                missing,
            } => categories.len() + usize::from(*missing == MissingCategory::Own),
        }
    }

    /// Appends the inputs for a text.
    pub(super) fn encode(
        &self,
        text: &str,
        is_missing: &Missing,
        inputs: &mut Vec<f32>,
    ) -> Result<(), EncodingProblem> {
        match self {
            Encoding::Number {
                mean,
                deviation,
                missing,
            } => {
                let number = if is_missing.is(text) {
                    missing.ok_or(EncodingProblem::Missing)?.0
                } else {
                    number(text).ok_or(EncodingProblem::NotANumber)?
                };
                inputs.push(((number - mean.0) / deviation.0) as f32);
            }
            Encoding::Category {
                categories,
                missing,
            } => {
                let (text, own) = match missing {
                    _ if !is_missing.is(text) => (Some(text), false),
                    MissingCategory::Own => (None, true),
                    MissingCategory::As(category) => (Some(category.as_str()), false),
                    MissingCategory::Unseen => (None, false),
                    MissingCategory::Refused => return Err(EncodingProblem::Missing),
                };
                let is = |category: &String| Some(category.as_str()) == text;
                inputs.extend(categories.iter().map(|category| one(is(category))));
                if *missing == MissingCategory::Own {
                    inputs.push(one(own));
                }
            }
        }
        Ok(())
    }
}

fn one(is: bool) -> f32 {
    if is { 1.0 } else { 0.0 }
}

fn of_numbers(scan: &Scan<'_>, config: &CsvConfig) -> Encoding {
    let mean = scan.mean();
    let missing = match config.on_missing {
        OnMissing::Mean => Some(mean),
        OnMissing::MostFrequent => {
            let most_frequent = scan.most_frequent();
            Some(most_frequent.and_then(|text| number(&text)).unwrap_or(mean))
        }
        OnMissing::Drop | OnMissing::Error => None,
    };
    let (mean, deviation) = if config.standardise {
        (mean, deviation(scan, mean))
    } else {
        (0.0, 1.0)
    };
    Encoding::Number {
        mean: Exact(mean),
        deviation: Exact(deviation),
        missing: missing.map(Exact),
    }
}

/// Returns the population standard deviation, or 1 if all numbers are equal. The sum runs in the
/// order of the texts, so that it does not depend on the order of rows.
fn deviation(scan: &Scan<'_>, mean: f64) -> f64 {
    if scan.numbers == 0 || scan.min >= scan.max {
        return 1.0;
    }
    let texts = scan.texts.iter();
    let squares = texts.filter_map(|(text, &count)| {
        let distance = number(text)? - mean;
        Some(count as f64 * distance * distance)
    });
    (squares.sum::<f64>() / scan.numbers as f64).sqrt()
}

fn of_categories(scan: &Scan<'_>, on_missing: OnMissing) -> Encoding {
    let missing = match on_missing {
        OnMissing::Mean if scan.missing > 0 => MissingCategory::Own,
        OnMissing::Mean => MissingCategory::Unseen,
        OnMissing::MostFrequent => scan
            .most_frequent()
            .map_or(MissingCategory::Unseen, MissingCategory::As),
        OnMissing::Drop | OnMissing::Error => MissingCategory::Refused,
    };
    Encoding::Category {
        categories: scan.sorted(),
        missing,
    }
}
