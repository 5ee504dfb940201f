//! How a table is written, and what it has in it.

use std::collections::BTreeSet;
use std::path::Path;

use sconce_data::csv::{self, TableSurvey, default_missing};

use super::look::FileStart;
use crate::diagnostic::Diagnostic;

/// A table's form and survey.
pub(super) struct ReadTable {
    pub(super) delimiter: char,
    pub(super) header: bool,
    /// Texts that mark missing values, besides those that do by default.
    pub(super) marks: Vec<String>,
    pub(super) table: TableSurvey,
}

impl ReadTable {
    /// Reads a table, by the form that its first line has.
    pub(super) fn of(file: &Path) -> Result<ReadTable, Diagnostic> {
        let first_line = FileStart::of(file)?.first_line();
        let delimiter = delimiter_of(&first_line);
        let header = has_header(&first_line, delimiter);
        let survey = |marks: &[String]| {
            let missing = [&default_missing()[..], marks].concat();
            let table = csv::survey(file, delimiter, header, &missing);
            table.map_err(|error| Diagnostic::new(error.to_string()))
        };
        let first = survey(&[])?;
        let marks = marks(&first);
        let table = if marks.is_empty() {
            first
        } else {
            survey(&marks)?
        };
        Ok(ReadTable {
            delimiter,
            header,
            marks,
            table,
        })
    }
}

/// Returns the texts that mark missing values in columns of numbers whose other texts are all such.
fn marks(table: &TableSurvey) -> Vec<String> {
    const MARKS: [&str; 9] = [
        "-", "--", ".", "n/a", "#n/a", "nan", "nil", "none", "unknown",
    ];
    let is_mark = |text: &str| MARKS.contains(&text.to_lowercase().as_str());
    let columns = table.columns.iter().map(|column| &column.odd);
    let marked = columns.filter(|odd| odd.iter().all(|(text, _)| is_mark(text)));
    let texts: BTreeSet<&String> = marked.flatten().map(|(text, _)| text).collect();
    texts.into_iter().cloned().collect()
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
