//! Survey of a table whose target isn't chosen yet: what each column has in it.

use std::collections::HashSet;
use std::path::Path;

use super::columns::DateForm;
use super::date::is_date;
use super::table::Table;
use super::table::format::TableFormat;
use super::table::scan::{Missing, Scan, number};
use crate::DataError;

/// The columns of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSurvey {
    /// Number of rows.
    pub rows: usize,
    /// Columns, in the file's order.
    pub columns: Vec<ColumnSurvey>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about a column"
)]
pub struct ColumnSurvey {
    /// Name, as in the header or by position.
    pub name: String,
    /// Whether the header has no name for it.
    pub is_unnamed: bool,
    /// Number of rows that have a value.
    pub present: usize,
    /// Number of different texts.
    pub distinct: usize,
    /// Number of rows of the rarest and of the most frequent text.
    pub counts: [usize; 2],
    /// The first text.
    pub example: String,
    /// Minimum and maximum of the numbers, if there is any.
    pub range: Option<[f64; 2]>,
    /// Whether more than half of the values are numbers or intended as such, so that all others are errors.
    pub is_numeric: bool,
    /// Whether all are whole numbers.
    pub is_whole: bool,
    /// Whether all rows have a whole number, each one more than the row before.
    pub is_row_number: bool,
    /// Whether all values are dates or times.
    pub is_date: bool,
    /// Whether the parts of these dates are known: all have days or none has, and which number is the day.
    pub is_clear_date: bool,
    /// Texts in a numeric column, with the line of the first.
    pub odd: Vec<(String, u64)>,
}

/// Surveys a table; `missing` are the texts that mark a missing value.
///
/// # Errors
///
/// If the file can't be read as a table.
pub fn survey(
    file: &Path,
    delimiter: char,
    header: bool,
    missing: &[String],
) -> Result<TableSurvey, DataError> {
    let table = Table::read(file, TableFormat { delimiter, header })?;
    let missing = Missing::new(missing);
    let columns = table.names.iter().enumerate();
    Ok(TableSurvey {
        rows: table.count(),
        columns: columns
            .map(|(place, name)| of_column(&table, place, name, &missing))
            .collect(),
    })
}

fn of_column(table: &Table, place: usize, name: &str, missing: &Missing) -> ColumnSurvey {
    let scan = Scan::of(table, place, 0..table.count(), missing);
    let is_numeric = scan.is_mostly_numeric();
    let whole = |text: &str| number(text).filter(|number| number.fract() == 0.0);
    let counts = scan.counts().iter().map(|(_, count)| count);
    let mut odd = Vec::new();
    if is_numeric {
        // One pass over the rows: there may be as many odd texts as half of them.
        let mut unseen: HashSet<&str> = scan.counts().texts().collect();
        unseen.retain(|text| number(text).is_none());
        for row in 0..table.count() {
            let text = table.field(row, place);
            if unseen.remove(text) {
                odd.push((text.to_owned(), table.line(row)));
            }
        }
    }
    let first = whole(table.field(0, place));
    let is_row_number = first.is_some_and(|first| {
        let mut rows = (0..table.count()).zip(0_u32..);
        rows.all(|(row, above)| whole(table.field(row, place)) == Some(first + f64::from(above)))
    });
    let mut fields = (0..table.count()).map(|row| table.field(row, place));
    let example = fields.find(|field| !missing.is(field)).unwrap_or_default();
    let is_date = scan.present() > 0 && scan.counts().texts().all(is_date);
    ColumnSurvey {
        name: name.to_owned(),
        is_unnamed: table.is_unnamed(place),
        present: scan.present(),
        distinct: scan.counts().len(),
        counts: [counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)],
        example: example.to_owned(),
        range: (scan.numbers > 0).then_some([scan.min, scan.max]),
        is_numeric,
        is_whole: scan.counts().texts().all(|text| whole(text).is_some()),
        is_row_number,
        is_date,
        is_clear_date: is_date && DateForm::of(table, None, missing, name, place).is_ok(),
        odd,
    }
}
