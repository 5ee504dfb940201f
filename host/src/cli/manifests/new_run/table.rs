//! A table: its target, and the columns left out.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use sconce_data::csv::{ColumnSurvey, TableSurvey, default_missing};
use serde_json::{Value, json};

use super::arguments::{NewRunArgs, TargetKind};
use super::columns::{are_classes, likely_target, why_no_input};
use super::goal::Goal;
use super::questions::Questions;
use super::read_table::ReadTable;
use crate::diagnostic::Diagnostic;
use crate::thousands::grouped;

/// Fewest rows of which some can be kept for validation.
const FEWEST: usize = 5;

/// A table and the roles of its columns.
#[derive(Debug, PartialEq)]
pub(super) struct TablePlan {
    pub(super) file: PathBuf,
    delimiter: char,
    header: bool,
    target: String,
    pub(super) goal: Goal,
    /// Whether the table itself would give the target the other kind.
    is_kind_needed: bool,
    ignore: Vec<String>,
    /// Columns of dates that are inputs.
    dates: Vec<String>,
    /// Texts that mark missing values, besides those that do by default.
    marks: Vec<String>,
    pub(super) rows: usize,
    /// What was found, for the user.
    pub(super) findings: Vec<String>,
}

impl TablePlan {
    /// Reads a table, and chooses its target unless it is given.
    pub(super) fn choose<R: BufRead, W: Write>(
        file: &Path,
        arguments: &NewRunArgs,
        questions: &mut Questions<R, W>,
    ) -> Result<TablePlan, Diagnostic> {
        let ReadTable {
            delimiter,
            header,
            marks,
            table,
        } = ReadTable::of(file)?;
        let find = |text: &str| {
            let found = table.columns.iter().find(|column| column.name == text);
            found.ok_or_else(|| {
                let names: Vec<&str> = table
                    .columns
                    .iter()
                    .map(|column| column.name.as_str())
                    .collect();
                format!(
                    "the table has no column `{text}`; it has: {}",
                    names.join(", ")
                )
            })
        };
        let likely = likely_target(&table)
            .and_then(|(place, why)| Some((table.columns.get(place)?.name.as_str(), why)));
        let (name, why_likely) = likely.unwrap_or_default();
        let column = match &arguments.target {
            Some(target) => find(target),
            None if likely.is_none() => {
                let problem = format!("no column of `{}` looks like a target", file.display());
                return Err(Diagnostic::new(problem).hint("name it: `--target COLUMN`"));
            }
            None => questions.ask("Which column is to be learned?", name, find),
        };
        let column = column.map_err(Diagnostic::new)?;
        check_target(column)?;
        let kind = arguments.target_kind.unwrap_or(if are_classes(column) {
            TargetKind::Classes
        } else {
            TargetKind::Numbers
        });
        let goal = match kind {
            TargetKind::Classes => Goal::of_classes(column.counts),
            TargetKind::Numbers if column.is_numeric => Goal::Numbers,
            TargetKind::Numbers => {
                let problem = format!("the column `{}` has texts, not numbers", column.name);
                return Err(Diagnostic::new(problem));
            }
        };
        let left_out = left_out(&table, column, file)?;
        let why = match &arguments.target {
            Some(_) => "as told",
            None if column.name == name => why_likely,
            None => "as answered",
        };
        let mut findings = vec![
            format!(
                "data    {} rows of {} columns",
                grouped(table.rows as u64),
                table.columns.len()
            ),
            format!(
                "target  `{}`, {why}; another: `--target COLUMN`",
                column.name
            ),
            format!("task    {}: {}", goal.words(), of_target(column, goal)),
        ];
        if !header {
            findings.push(
                "header  none: the first line has numbers; columns are `column1`, `column2`, …"
                    .to_owned(),
            );
        }
        if !marks.is_empty() {
            let marks = marks.join("`, `");
            findings.push(format!(
                "missing  `{marks}` between numbers, besides the usual marks"
            ));
        }
        let dates = used_dates(&table, column, &left_out);
        findings.extend(of_other_columns(&dates, &left_out));
        Ok(TablePlan {
            file: file.to_owned(),
            delimiter,
            header,
            target: column.name.clone(),
            goal,
            is_kind_needed: goal.is_classes() == column.is_numeric,
            ignore: left_out
                .iter()
                .map(|(other, _)| other.name.clone())
                .collect(),
            dates: dates.iter().map(|column| column.name.clone()).collect(),
            marks,
            rows: column.present,
            findings,
        })
    }

    /// Returns the manifest's `data`.
    pub(super) fn data(&self, file: &Path) -> Value {
        let mut data = json!({"kind": "csv", "file": file, "target": self.target});
        if self.is_kind_needed {
            data["target_kind"] = json!("classes");
        }
        if !self.goal.is_classes() {
            data["target_scaling"] = json!("standard");
        }
        if !self.ignore.is_empty() {
            data["ignore"] = json!(self.ignore);
        }
        if !self.dates.is_empty() {
            data["dates"] = json!(self.dates);
        }
        if !self.marks.is_empty() {
            data["missing"] = json!([default_missing(), self.marks.clone()].concat());
        }
        if self.delimiter != ',' {
            data["delimiter"] = json!(self.delimiter);
        }
        if !self.header {
            data["header"] = json!(false);
        }
        data["val"] = json!({"fraction": 0.2});
        if self.goal.is_classes() {
            data["stratified"] = json!(true);
        }
        data
    }
}

/// Returns the columns of dates that are inputs.
fn used_dates<'a>(
    table: &'a TableSurvey,
    target: &ColumnSurvey,
    left_out: &[(&ColumnSurvey, String)],
) -> Vec<&'a ColumnSurvey> {
    let is_left_out = |column: &ColumnSurvey| {
        let mut left_out = left_out.iter();
        left_out.any(|(other, _)| other.name == column.name)
    };
    (table.columns.iter())
        .filter(|column| column.is_clear_date && column.name != target.name)
        .filter(|column| !is_left_out(column))
        .collect()
}

/// Describes the columns of dates, and those left out.
fn of_other_columns(dates: &[&ColumnSurvey], left_out: &[(&ColumnSurvey, String)]) -> Vec<String> {
    let dates = dates.iter().map(|date| {
        format!(
            "dates   `{}`, such as `{}`: place in year, week and day become inputs",
            date.name, date.example
        )
    });
    let others = (left_out.iter()).map(|(other, why)| format!("left out  `{}`: {why}", other.name));
    let advice = (!left_out.is_empty())
        .then(|| "  to use a column all the same, take it out of `data.ignore`".to_owned());
    dates.chain(others).chain(advice).collect()
}

/// Returns the columns that aren't used as inputs, and why; an error if none remains.
fn left_out<'a>(
    table: &'a TableSurvey,
    target: &ColumnSurvey,
    file: &Path,
) -> Result<Vec<(&'a ColumnSurvey, String)>, Diagnostic> {
    /// Categories of a column from which on the data refuse it.
    const MOST_CATEGORIES: usize = 100;
    let inputs = (table.columns.iter()).filter(|column| column.name != target.name);
    let count = inputs.clone().count();
    let reasons = inputs.filter_map(|column| Some((column, why_no_input(column)?)));
    let mut left_out: Vec<_> = reasons.collect();
    if left_out.len() == count {
        // Where nothing else is left, whatever can be read is an input.
        left_out.retain(|(column, _)| {
            let is_text = !column.is_numeric && column.distinct > MOST_CATEGORIES;
            column.present == 0 || is_text || !column.odd.is_empty()
        });
    }
    if left_out.len() < count {
        return Ok(left_out);
    }
    let problem = format!(
        "`{}` has no inputs for the target `{}`",
        file.display(),
        target.name
    );
    let notes =
        (left_out.iter()).map(|(column, why)| format!("`{}` is left out: {why}", column.name));
    Err(notes.fold(Diagnostic::new(problem), Diagnostic::note))
}

/// Refuses a target from which nothing can be learned.
fn check_target(column: &ColumnSurvey) -> Result<(), Diagnostic> {
    let problem = |text: String| {
        let problem = Diagnostic::new(format!("the target `{}` {text}", column.name));
        Err(problem.hint("name another: `--target COLUMN`"))
    };
    if let Some((text, line)) = column.odd.first() {
        return problem(format!(
            "has numbers, but `{text}` in line {line}: correct that first"
        ));
    }
    if column.present < FEWEST {
        return problem(format!(
            "has {} values: at least {FEWEST} are needed to train and validate",
            column.present
        ));
    }
    if column.distinct < 2 {
        return problem(format!("is `{}` in every row", column.example));
    }
    if !column.is_numeric && column.distinct * 2 > column.present && column.distinct >= 20 {
        let (distinct, present) = (column.distinct, column.present);
        return problem(format!(
            "has {distinct} different texts in {present} rows, too many for classes"
        ));
    }
    Ok(())
}

/// Describes what the target has.
fn of_target(column: &ColumnSurvey, goal: Goal) -> String {
    let other = |kind| format!("otherwise: `--target-kind {kind}`");
    let [fewest, most] = column.counts;
    let range = column.range.unwrap_or_default();
    match goal {
        Goal::Numbers if are_classes(column) => "as told".to_owned(),
        Goal::Numbers => {
            let few = if column.is_whole {
                format!("; {}", other("classes"))
            } else {
                String::new()
            };
            format!("numbers from {} to {}{few}", range[0], range[1])
        }
        _ => {
            let numbers = if column.is_numeric {
                format!("; {}", other("numbers"))
            } else {
                String::new()
            };
            let kind = if column.is_numeric {
                "whole numbers"
            } else {
                "texts"
            };
            format!(
                "{} distinct {kind}, each in {fewest} to {most} rows{numbers}",
                column.distinct
            )
        }
    }
}
