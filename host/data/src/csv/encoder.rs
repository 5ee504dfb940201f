//! How a record becomes inputs: learnt from the training rows, then the same for every other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::columns::{Column, Kind};
use super::scan::{Missing, Scan, number};
use super::table::Table;
use super::{CsvConfig, Error, OnMissing};
use crate::exact::Exact;

/// How a record, a text for each column, becomes the inputs of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encoder {
    /// The columns, in the order of their inputs.
    pub columns: Vec<ColumnEncoder>,
    /// The texts that mean that a value is missing.
    pub missing: Vec<String>,
}

/// How one column becomes inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnEncoder {
    /// The column's name.
    pub name: String,
    /// What becomes of its texts.
    pub encoding: Encoding,
}

/// What becomes of a column's texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Encoding {
    /// One input: (number − mean) / deviation.
    Number {
        /// What is subtracted: the training rows' mean, 0 where numbers are left as they are.
        mean: Exact,
        /// What is divided by: the training rows' standard deviation (of the population), 1 where
        /// numbers are left as they are or all the same.
        deviation: Exact,
        /// The number in a missing one's place; none where that is an error.
        missing: Option<Exact>,
    },
    /// One input for each category, 1 where it is the record's and 0 elsewhere; a category that the
    /// training rows don't have is 0 everywhere.
    Category {
        /// The training rows' categories.
        categories: Vec<String>,
        /// What becomes of a missing one.
        missing: MissingCategory,
    },
}

/// What becomes of a missing category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingCategory {
    /// It has an input of its own, after the categories'.
    Own,
    /// It is this category.
    As(String),
    /// All inputs are 0, as for a category that the training rows don't have.
    Unseen,
    /// It is an error.
    Refused,
}

/// Why a text can't be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotANumber,
    Missing,
}

impl Encoder {
    /// Learns from the `training` rows.
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
                    Kind::Numeric => of_numbers(&scan, config),
                    Kind::Categorical => of_categories(&scan, config.on_missing),
                },
            }
        });
        Encoder {
            columns: fitted.collect(),
            missing: config.missing.clone(),
        }
    }

    /// How many inputs there are.
    pub fn width(&self) -> usize {
        let columns = self.columns.iter();
        columns.map(|column| column.encoding.width()).sum()
    }

    /// What each input is: a column, or `column=category`.
    pub fn input_names(&self) -> Vec<String> {
        let columns = self.columns.iter();
        columns.flat_map(ColumnEncoder::input_names).collect()
    }

    /// The inputs of a record: a text for each column by its name; columns of other names don't
    /// matter.
    ///
    /// # Errors
    ///
    /// A column that isn't there, a text that should be a number, or a missing value where the
    /// training rows had none.
    pub fn encode(&self, record: &BTreeMap<String, String>) -> Result<Vec<f32>, Error> {
        let missing = Missing::new(&self.missing);
        let mut inputs = Vec::with_capacity(self.width());
        for column in &self.columns {
            let name = column.name.clone();
            let Some(text) = record.get(&name) else {
                let known = record.keys().cloned().collect();
                return Err(Error::AbsentColumn { name, known });
            };
            let text = text.trim();
            let encoded = column.encoding.encode(text, &missing, &mut inputs);
            encoded.map_err(|refusal| match refusal {
                Refusal::NotANumber => Error::RecordNumber {
                    name,
                    found: text.to_owned(),
                },
                Refusal::Missing => Error::RecordMissing {
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

    /// Adds the inputs of a text.
    pub(super) fn encode(
        &self,
        text: &str,
        is_missing: &Missing,
        inputs: &mut Vec<f32>,
    ) -> Result<(), Refusal> {
        match self {
            Encoding::Number {
                mean,
                deviation,
                missing,
            } => {
                let number = if is_missing.is(text) {
                    missing.ok_or(Refusal::Missing)?.0
                } else {
                    number(text).ok_or(Refusal::NotANumber)?
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
                    MissingCategory::Refused => return Err(Refusal::Missing),
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

/// The standard deviation of the numbers themselves (their squares' mean, not the estimate for a
/// larger population); 1 where all are the same. The sum is in the order of the texts, so that it
/// depends on no order of rows.
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
