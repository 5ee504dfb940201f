//! A table: how it is written, its target, and the columns left out.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use sconce_data::csv::{self, ColumnSurvey, TableSurvey};
use serde_json::{Value, json};

use super::arguments::{NewRunArgs, TargetKind};
use super::columns::{are_classes, likely_target, why_no_input};
use super::goal::Goal;
use super::look::FileStart;
use super::questions::Questions;
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
        let first_line = FileStart::of(file)?.first_line();
        let delimiter = delimiter_of(&first_line);
        let header = has_header(&first_line, delimiter);
        let table = csv::survey(file, delimiter, header)
            .map_err(|error| Diagnostic::new(error.to_string()))?;
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
        for (other, why) in &left_out {
            findings.push(format!("left out  `{}`: {why}", other.name));
        }
        if !left_out.is_empty() {
            findings
                .push("  to use a column all the same, take it out of `data.ignore`".to_owned());
        }
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

/// Returns the columns that aren't used as inputs, and why; an error if none remains.
fn left_out<'a>(
    table: &'a TableSurvey,
    target: &ColumnSurvey,
    file: &Path,
) -> Result<Vec<(&'a ColumnSurvey, String)>, Diagnostic> {
    /// Categories of a column from which on the data refuse it.
    const MOST_CATEGORIES: usize = 100;
    let inputs = table.columns.iter();
    let inputs = inputs.filter(|column| column.name != target.name);
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
    let notes = left_out.iter();
    let notes = notes.map(|(column, why)| format!("`{}` is left out: {why}", column.name));
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

/// Returns the delimiter that the first line has most of.
fn delimiter_of(first_line: &str) -> char {
    let count = |delimiter: &char| first_line.matches(*delimiter).count();
    let delimiters = [',', ';', '\t'].into_iter();
    let most = delimiters.max_by_key(count).unwrap_or(',');
    if count(&most) == count(&',') {
        ','
    } else {
        most
    }
}

/// Whether the first line has names: no numbers, or consecutive ones, as pandas names columns.
fn has_header(first_line: &str, delimiter: char) -> bool {
    let fields = first_line.split(delimiter);
    let fields = fields.map(|field| field.trim().trim_matches('"'));
    let numbers: Vec<&str> = fields
        .filter(|field| field.parse::<f64>().is_ok())
        .collect();
    let whole: Option<Vec<u32>> = numbers.iter().map(|text| text.parse().ok()).collect();
    let is_counted = |whole: &Vec<u32>| {
        whole.len() > 1
            && whole
                .windows(2)
                .all(|pair| pair[0].checked_add(1) == Some(pair[1]))
    };
    numbers.is_empty() || whole.is_some_and(|whole| is_counted(&whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_how_a_table_is_written() {
        for (line, delimiter, header) in [
            ("a,b,c", ',', true),
            ("a;b;\"c\"", ';', true),
            ("a\tb", '\t', true),
            ("0,1,2,target", ',', true),
            (",a,b", ',', true),
            ("5.1,3.5,1.4,Iris-setosa", ',', false),
            ("1,14.23,1.71", ',', false),
            ("7;3", ';', false),
        ] {
            assert_eq!(delimiter_of(line), delimiter, "{line}");
            assert_eq!(has_header(line, delimiter), header, "{line}");
        }
    }
}
