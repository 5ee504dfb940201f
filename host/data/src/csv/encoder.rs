//! Encoding of records as inputs: fitted to the training rows, then the same for all others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::columns::{Column, ColumnKind};
use super::config::{DEFAULT_MIN_COUNT, OnUnknown};
use super::scan::{Missing, Scan, number};
use super::stored_column::StoredColumn;
use super::table::Table;
use super::unknown::UnknownCategory;
use super::{CsvConfig, CsvError, OnMissing};
use crate::exact::Exact;
use crate::preprocessing::{FarValue, InputNotes};

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
#[serde(try_from = "StoredColumn", into = "StoredColumn")]
pub struct ColumnEncoder {
    /// Name of the column.
    pub name: String,
    /// Encoding of the column's values.
    pub encoding: Encoding,
}

/// Encoding of a column's values.
#[derive(Clone, Debug, PartialEq)]
pub enum Encoding {
    /// One input: (number − mean) / deviation, or the number.
    Number {
        /// Mean of the training rows.
        mean: Exact,
        /// (Population) standard deviation of the training rows, or 1 if all are equal.
        deviation: Exact,
        /// Whether numbers are standardised.
        is_standardised: bool,
        /// Replacement for a missing number; none if that is an error.
        missing: Option<Exact>,
        /// Smallest and largest number of the training rows.
        seen: [Exact; 2],
        /// Number of training rows with a number.
        rows: usize,
    },
    /// One-hot encoding with an input for each category.
    Category {
        /// Categories in the training rows, without those that count as unknown.
        categories: Vec<String>,
        /// Number of training rows of each category.
        counts: Vec<usize>,
        /// Handling of a missing category.
        missing: MissingCategory,
        /// Handling of other categories. By default an error in predictions, and 0 in all inputs in validation and test.
        unknown: Option<OnUnknown>,
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
    /// It is an unknown category.
    Unseen,
    /// It is an error.
    Refused,
}

/// A reason why a text can't be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EncodingProblem {
    NotANumber,
    Missing,
    Unknown,
}

/// A number further from those of the training rows than [`FAR`] standard deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Far {
    value: f64,
    seen: [f64; 2],
}

/// Number of standard deviations beyond the training rows' numbers from which a number is reported.
const FAR: f64 = 10.0;

impl Far {
    pub(super) fn at(self, line: u64, column: &str) -> FarValue {
        FarValue {
            line,
            column: column.to_owned(),
            value: self.value,
            seen: self.seen,
        }
    }
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
                    ColumnKind::Categorical => of_categories(&scan, config),
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
    /// A column is absent, a text in a numeric column is not a number, a category is unknown, or a value is missing where
    /// the training rows had none.
    pub fn encode(&self, record: &BTreeMap<String, String>) -> Result<Vec<f32>, CsvError> {
        self.encode_noting(record, 0, &mut InputNotes::default())
    }

    /// As [`encode`](Encoder::encode), for a record on a line, with notes of values far from those of the training.
    pub(super) fn encode_noting(
        &self,
        record: &BTreeMap<String, String>,
        line: u64,
        notes: &mut InputNotes,
    ) -> Result<Vec<f32>, CsvError> {
        let missing = Missing::new(&self.missing);
        let mut inputs = Vec::with_capacity(self.width());
        for column in &self.columns {
            let name = column.name.clone();
            let Some(text) = record.get(&name) else {
                let known = record.keys().cloned().collect();
                return Err(CsvError::AbsentColumn { name, known });
            };
            let text = text.trim();
            let encoding = &column.encoding;
            let encoded = encoding.encode(text, &missing, OnUnknown::Error, &mut inputs);
            let far = encoded.map_err(|refusal| match refusal {
                EncodingProblem::Unknown => CsvError::RecordCategory(column.unknown(text)),
                EncodingProblem::NotANumber => CsvError::RecordNumber {
                    name,
                    found: text.to_owned(),
                },
                EncodingProblem::Missing => CsvError::RecordMissing {
                    name,
                    found: text.to_owned(),
                },
            })?;
            if let Some(far) = far {
                notes.add_far(|| far.at(line, &column.name));
            }
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
                unknown,
                ..
            } => {
                let of_categories = categories.iter().map(|text| format!("{name}={text}"));
                let is_missing = *missing == MissingCategory::Own;
                let is_missing = is_missing.then(|| format!("{name} is missing"));
                let is_unknown = *unknown == Some(OnUnknown::Own);
                let is_unknown = is_unknown.then(|| format!("{name} is unknown"));
                of_categories.chain(is_missing).chain(is_unknown).collect()
            }
        }
    }

    /// Describes a text that is none of the categories.
    pub(super) fn unknown(&self, found: &str) -> UnknownCategory {
        match &self.encoding {
            Encoding::Number { .. } => UnknownCategory::new(&self.name, found, &[], &[]),
            Encoding::Category {
                categories, counts, ..
            } => UnknownCategory::new(&self.name, found, categories, counts),
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
                unknown,
                ..
            } => {
                let own = usize::from(*missing == MissingCategory::Own);
                categories.len() + own + usize::from(*unknown == Some(OnUnknown::Own))
            }
        }
    }

    /// Appends the inputs for a text. `default` is the handling of unknown categories unless the encoding has its own.
    /// Returns a number that is far from those of the training rows.
    pub(super) fn encode(
        &self,
        text: &str,
        is_missing: &Missing,
        default: OnUnknown,
        inputs: &mut Vec<f32>,
    ) -> Result<Option<Far>, EncodingProblem> {
        match self {
            Encoding::Number {
                mean,
                deviation,
                is_standardised,
                missing,
                seen,
                rows,
            } => {
                let number = if is_missing.is(text) {
                    missing.ok_or(EncodingProblem::Missing)?.0
                } else {
                    number(text).ok_or(EncodingProblem::NotANumber)?
                };
                inputs.push(if *is_standardised {
                    ((number - mean.0) / deviation.0) as f32
                } else {
                    number as f32
                });
                let [least, most] = seen.map(|seen| seen.0);
                let distance = (least - number).max(number - most);
                let is_far = *rows > 0 && distance > FAR * deviation.0;
                Ok(is_far.then_some(Far {
                    value: number,
                    seen: [least, most],
                }))
            }
            Encoding::Category {
                categories,
                missing,
                unknown,
                ..
            } => {
                let text = match missing {
                    _ if !is_missing.is(text) => Some(text),
                    MissingCategory::As(category) => Some(category.as_str()),
                    MissingCategory::Own | MissingCategory::Unseen => None,
                    MissingCategory::Refused => return Err(EncodingProblem::Missing),
                };
                let start = inputs.len();
                let is = |category: &String| Some(category.as_str()) == text;
                inputs.extend(categories.iter().map(|category| one(is(category))));
                let is_own = text.is_none() && *missing == MissingCategory::Own;
                if *missing == MissingCategory::Own {
                    inputs.push(one(is_own));
                }
                let is_known = is_own || inputs.iter().skip(start).any(|&input| input > 0.0);
                let rule = unknown.unwrap_or(default);
                if *unknown == Some(OnUnknown::Own) {
                    inputs.push(one(!is_known));
                } else if !is_known && rule == OnUnknown::Error {
                    return Err(match text {
                        Some(_) => EncodingProblem::Unknown,
                        None => EncodingProblem::Missing,
                    });
                }
                Ok(None)
            }
        }
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
    let seen = if scan.numbers == 0 {
        [mean, mean]
    } else {
        [scan.min, scan.max]
    };
    Encoding::Number {
        mean: Exact(mean),
        deviation: Exact(deviation(scan, mean)),
        is_standardised: config.standardise,
        missing: missing.map(Exact),
        seen: seen.map(Exact),
        rows: scan.numbers,
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

fn of_categories(scan: &Scan<'_>, config: &CsvConfig) -> Encoding {
    let count = |text: &String| scan.texts.get(text.as_str()).copied().unwrap_or(0);
    let least = match config.on_unknown {
        Some(OnUnknown::Own) => config.min_count.unwrap_or(DEFAULT_MIN_COUNT),
        _ => 0,
    };
    let mut categories = scan.sorted();
    categories.retain(|text| count(text) >= least);
    let missing = match config.on_missing {
        OnMissing::Mean if scan.missing > 0 => MissingCategory::Own,
        OnMissing::Mean => MissingCategory::Unseen,
        OnMissing::MostFrequent => {
            let most_frequent = scan.most_frequent();
            let most_frequent = most_frequent.filter(|text| categories.contains(text));
            most_frequent.map_or(MissingCategory::Unseen, MissingCategory::As)
        }
        OnMissing::Drop | OnMissing::Error => MissingCategory::Refused,
    };
    Encoding::Category {
        counts: categories.iter().map(count).collect(),
        categories,
        missing,
        unknown: config.on_unknown,
    }
}
