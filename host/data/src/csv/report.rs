//! What a table is found to be, for people to check.

use std::fmt;
use std::path::PathBuf;

use super::columns::{Column, Kind};
use super::rows::Used;
use super::scan::{Missing, Scan, number};
use super::table::Table;
use super::target::Target;
use crate::Targets;

/// What the training file is found to be; its [`Display`](fmt::Display) has a line for each column.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The file.
    pub file: PathBuf,
    /// How many rows it has.
    pub rows: usize,
    /// How many of them are left out because their target is missing.
    pub without_target: usize,
    /// How many of them are left out because an input is missing.
    pub incomplete: usize,
    /// The targets' columns.
    pub targets: Vec<ColumnReport>,
    /// The inputs' columns.
    pub inputs: Vec<ColumnReport>,
}

/// What a column is found to be, over all rows of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnReport {
    /// Its name.
    pub name: String,
    /// In how many rows it is missing.
    pub missing: usize,
    /// What it has.
    pub contents: Contents,
    /// Whether it is a target of a few whole numbers, which may be meant as classes.
    pub may_be_classes: bool,
}

/// What a column has.
#[derive(Clone, Debug, PartialEq)]
pub enum Contents {
    /// Numbers.
    Numbers {
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
        /// Their mean.
        mean: f64,
    },
    /// Categories with how many rows have them.
    Categories(Vec<(String, usize)>),
}

impl Report {
    /// `is_chosen`: whether the manifest says what the targets are.
    pub(super) fn new(
        table: &Table,
        columns: &[Column],
        target: &Target,
        target_places: &[usize],
        used: &Used,
        missing: &Missing,
        is_chosen: bool,
    ) -> Report {
        let numeric = matches!(target.targets, Targets::Numbers(_));
        let targets = target.names.iter().zip(target_places);
        let inputs = columns.iter();
        Report {
            file: table.file.clone(),
            rows: table.rows.len(),
            without_target: used.without_target,
            incomplete: used.incomplete,
            targets: targets
                .map(|(name, &place)| {
                    let column = of_column(table, name, place, numeric, missing);
                    let may_be_classes =
                        numeric && !is_chosen && are_like_classes(table, place, missing);
                    ColumnReport {
                        may_be_classes,
                        ..column
                    }
                })
                .collect(),
            inputs: inputs
                .map(|column| {
                    let numeric = column.kind == Kind::Numeric;
                    of_column(table, &column.name, column.place, numeric, missing)
                })
                .collect(),
        }
    }
}

fn of_column(
    table: &Table,
    name: &str,
    place: usize,
    numeric: bool,
    missing: &Missing,
) -> ColumnReport {
    let scan = Scan::of(table, place, 0..table.rows.len(), missing);
    let contents = if numeric {
        Contents::Numbers {
            min: scan.min,
            max: scan.max,
            mean: scan.mean(),
        }
    } else {
        let counted = scan.sorted().into_iter().map(|text| {
            let count = scan.texts.get(text.as_str()).copied();
            (text, count.unwrap_or(0))
        });
        Contents::Categories(counted.collect())
    };
    ColumnReport {
        name: name.to_owned(),
        missing: scan.missing,
        contents,
        may_be_classes: false,
    }
}

/// Whether a column has a few whole numbers, each several times.
fn are_like_classes(table: &Table, place: usize, missing: &Missing) -> bool {
    const MOST: usize = 10;
    let scan = Scan::of(table, place, 0..table.rows.len(), missing);
    let found = scan.texts.len();
    let mut texts = scan.texts.keys();
    let are_whole = texts.all(|text| number(text).is_some_and(|number| number.fract() == 0.0));
    are_whole && (2..=MOST).contains(&found) && scan.present() >= 4 * found
}

impl fmt::Display for Report {
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

/// How many categories are written out.
const SHOWN: usize = 8;

impl fmt::Display for ColumnReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: ", self.name)?;
        match &self.contents {
            Contents::Numbers { min, max, mean } => {
                write!(f, "numbers from {min} to {max}, mean {}", short(*mean))?;
            }
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

/// A number to five significant digits.
fn short(number: f64) -> f64 {
    format!("{number:.4e}").parse().unwrap_or(number)
}
