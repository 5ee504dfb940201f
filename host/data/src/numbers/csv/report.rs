//! Description of a table as it was read, for users to check.

use std::fmt;
use std::path::PathBuf;

use super::columns::{Column, ColumnKind};
use super::date::WrittenDate;
use super::rows::Used;
use super::table::Table;
use super::table::scan::{Missing, Scan, number};
use super::target::TargetColumns;
use crate::{Targets, parallel};

/// Description of the training file; [`Display`](fmt::Display) prints a line for each column.
#[derive(Clone, Debug, PartialEq)]
pub struct CsvReport {
    /// Path of the file.
    pub file: PathBuf,
    /// Number of rows.
    pub rows: usize,
    /// Number of rows left out because their target is missing.
    pub without_target: usize,
    /// Number of rows left out because an input is missing.
    pub incomplete: usize,
    /// Target columns.
    pub targets: Vec<ColumnReport>,
    /// Input columns.
    pub inputs: Vec<ColumnReport>,
}

/// Description of a column, over all rows of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnReport {
    /// Name of the column.
    pub name: String,
    /// Number of rows in which it is missing.
    pub missing: usize,
    /// Summary of the values.
    pub contents: Contents,
    /// Whether it is a target with a few distinct integers, which may be meant as classes.
    pub may_be_classes: bool,
}

/// Summary of a column's values.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// Numeric values.
    Numbers {
        /// Minimum.
        min: f64,
        /// Maximum.
        max: f64,
        /// Mean.
        mean: f64,
    },
    /// Dates or times: the first and the last, and the number of different ones.
    Dates {
        /// The earliest, as it is written.
        first: String,
        /// The latest, as it is written.
        last: String,
        /// Number of different ones.
        distinct: usize,
    },
    /// Categories with the number of rows for each.
    Categories(Vec<(String, usize)>),
}

impl CsvReport {
    /// `is_chosen`: whether the manifest specifies the kind of the targets.
    pub(super) fn new(
        table: &Table,
        columns: &[Column],
        target: &TargetColumns,
        target_columns: &[usize],
        used: &Used,
        missing: &Missing,
        is_chosen: bool,
    ) -> CsvReport {
        let numeric = matches!(target.targets, Targets::Numbers(_));
        let targets = target.names.iter().zip(target_columns);
        CsvReport {
            file: table.file.clone(),
            rows: table.count(),
            without_target: used.without_target,
            incomplete: used.incomplete,
            targets: targets
                .map(|(name, &place)| {
                    let kind = if numeric {
                        ColumnKind::Numeric
                    } else {
                        ColumnKind::Categorical
                    };
                    let column = of_column(table, name, place, kind, missing);
                    let may_be_classes =
                        numeric && !is_chosen && are_like_classes(table, place, missing);
                    ColumnReport {
                        may_be_classes,
                        ..column
                    }
                })
                .collect(),
            inputs: parallel::map(columns, table.threads(), |column| {
                of_column(table, &column.name, column.place, column.kind, missing)
            }),
        }
    }
}

fn of_column(
    table: &Table,
    name: &str,
    place: usize,
    kind: ColumnKind,
    missing: &Missing,
) -> ColumnReport {
    let scan = Scan::of(table, place, 0..table.count(), missing);
    let contents = match kind {
        ColumnKind::Numeric => Contents::Numbers {
            min: scan.min,
            max: scan.max,
            mean: scan.mean(),
        },
        ColumnKind::Categorical => {
            let sorted = scan.sorted().into_iter();
            Contents::Categories(
                sorted
                    .map(|(text, count)| (text.to_owned(), count))
                    .collect(),
            )
        }
        ColumnKind::Date(form) => {
            let read = |text| WrittenDate::parse(text)?.moment(form.order);
            let texts = scan.counts().texts();
            let dates = texts.filter_map(|text| Some((read(text)?.days(), text)));
            let mut dates: Vec<(f64, &str)> = dates.collect();
            dates.sort_by(|a, b| a.0.total_cmp(&b.0));
            let text = |date: Option<&(f64, &str)>| {
                date.map_or_else(String::new, |(_, text)| (*text).to_owned())
            };
            Contents::Dates {
                first: text(dates.first()),
                last: text(dates.last()),
                distinct: dates.len(),
            }
        }
    };
    ColumnReport {
        name: name.to_owned(),
        missing: scan.missing,
        contents,
        may_be_classes: false,
    }
}

/// Whether a column has a few distinct integers, each several times.
fn are_like_classes(table: &Table, place: usize, missing: &Missing) -> bool {
    const MOST: usize = 10;
    let scan = Scan::of(table, place, 0..table.count(), missing);
    let found = scan.counts().len();
    let mut texts = scan.counts().texts();
    let are_whole = texts.all(|text| number(text).is_some_and(|number| number.fract() == 0.0));
    are_whole && (2..=MOST).contains(&found) && scan.present() >= 4 * found
}

impl fmt::Display for CsvReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows in `{}`", self.rows, self.file.display())?;
        if self.without_target > 0 {
            let count = self.without_target;
            write!(f, "; {count} left out because the target is missing")?;
        }
        if self.incomplete > 0 {
            let count = self.incomplete;
            write!(f, "; {count} left out because an input is missing")?;
        }
        for column in &self.targets {
            write!(f, "\ntarget {column}")?;
        }
        for column in &self.inputs {
            write!(f, "\ninput {column}")?;
        }
        Ok(())
    }
}

/// Number of categories that are listed.
const SHOWN: usize = 8;

impl fmt::Display for ColumnReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: ", self.name)?;
        match &self.contents {
            Contents::Numbers { min, max, mean } => {
                write!(f, "numbers from {min} to {max}, mean {}", short(*mean))?;
            }
            Contents::Dates {
                first,
                last,
                distinct,
            } => write!(f, "{distinct} dates from {first} to {last}")?,
            Contents::Categories(categories) => {
                let shown = categories.iter().take(SHOWN);
                let shown: Vec<String> = shown
                    .map(|(text, count)| format!("{text} ({count})"))
                    .collect();
                write!(f, "{} categories: {}", categories.len(), shown.join(", "))?;
                if categories.len() > SHOWN {
                    write!(f, " and {} more", categories.len() - SHOWN)?;
                }
            }
        }
        if self.missing > 0 {
            write!(f, "; missing in {} rows", self.missing)?;
        }
        if self.may_be_classes {
            write!(
                f,
                "; learned as a number: for classes set `data.target_kind` to \"classes\""
            )?;
        }
        Ok(())
    }
}

/// Rounds a number to five significant digits.
fn short(number: f64) -> f64 {
    format!("{number:.4e}").parse().unwrap_or(number)
}
