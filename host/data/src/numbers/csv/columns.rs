//! Selection of the input columns, and their kinds.

use std::collections::HashMap;
use std::sync::Arc;

use super::date::{WrittenDate, is_date};
use super::table::scan::{Missing, Scan, number, why_no_number};
use super::table::{Table, twice};
use super::{CsvConfig, CsvError, DateOrder};
use crate::error::printable::printable;
use crate::parallel;

/// Kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Numeric,
    Categorical,
    Date(DateForm),
}

/// What the dates of a column have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DateForm {
    /// Order of day and month; none if all dates say which is which.
    pub(super) order: Option<DateOrder>,
    pub(super) has_days: bool,
    pub(super) has_times: bool,
}

/// An input column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    /// Index in the training file.
    pub(super) place: usize,
    pub(super) kind: ColumnKind,
}

const COLUMNS: &str = "`data.columns`";
const IGNORE: &str = "`data.ignore`";
const NUMERIC: &str = "`data.numeric`";
const CATEGORICAL: &str = "`data.categorical`";
const DATES: &str = "`data.dates`";
const EMBED: &str = "`data.embed`";
pub(super) const TARGET: &str = "`data.target`";
pub(super) const GROUP: &str = "`data.group`";
pub(super) const WEIGHT: &str = "`data.weight`";

/// Returns the input columns, in their order.
pub(super) fn inputs(
    table: &Table,
    config: &CsvConfig,
    missing: &Missing,
) -> Result<Vec<Column>, CsvError> {
    check_names(table, config)?;
    let names = config.columns.as_ref().unwrap_or(&table.names);
    let used = names
        .iter()
        .filter(|name| !config.ignore.contains(name) && !config.target.all().contains(name))
        .filter(|name| config.group.as_ref() != Some(name))
        .filter(|name| config.weight.as_ref() != Some(name));
    let used: Vec<&String> = used.collect();
    let columns = parallel::map(&used, table.threads(), |name| {
        let place = table.column(name, COLUMNS)?;
        let kind = kind(table, config, missing, name, place)?;
        let name = String::clone(name);
        Ok(Column { name, place, kind })
    });
    let columns: Vec<Column> = columns.into_iter().collect::<Result<_, CsvError>>()?;
    if columns.is_empty() {
        return Err(CsvError::NoInputs {
            file: table.file.clone(),
        });
    }
    Ok(columns)
}

/// Returns the number of each row's group, in the order of first occurrence.
pub(super) fn groups(
    table: &Table,
    name: &str,
    rows: &[usize],
    missing: &Missing,
) -> Result<Vec<u32>, CsvError> {
    let place = table.column(name, GROUP)?;
    let mut numbers = HashMap::new();
    let group = |&row: &usize| {
        let text = table.field(row, place);
        if missing.is(text) {
            return Err(CsvError::NoGroup {
                file: table.file.clone(),
                line: table.line(row),
                name: name.to_owned(),
                found: text.to_owned(),
            });
        }
        // No more than the rows, which are fewer than 2³².
        let next = numbers.len() as u32;
        Ok(*numbers.entry(text).or_insert(next))
    };
    rows.iter().map(group).collect()
}

/// Returns the weight of each row; `key` is the option that names the column, for messages.
pub(super) fn weights(
    table: &Table,
    name: &str,
    rows: &[usize],
    key: &'static str,
) -> Result<Arc<[f32]>, CsvError> {
    let place = table.column(name, key)?;
    let weight = |&row: &usize| {
        let text = table.field(row, place);
        let weight = number(text).map(|weight| weight as f32);
        let weight = weight.filter(|weight| weight.is_finite() && *weight >= 0.0);
        weight.ok_or_else(|| CsvError::Weight {
            file: table.file.clone(),
            line: table.line(row),
            name: name.to_owned(),
            found: printable(text),
        })
    };
    rows.iter().map(weight).collect()
}

/// Checks that all names are columns, and that no column is given two kinds.
fn check_names(table: &Table, config: &CsvConfig) -> Result<(), CsvError> {
    let columns = config.columns.as_deref().unwrap_or_default();
    let target = config.target.all();
    let (group, weight) = (config.group.as_slice(), config.weight.as_slice());
    let lists = [
        (TARGET, target),
        (GROUP, group),
        (WEIGHT, weight),
        (COLUMNS, columns),
        (IGNORE, &config.ignore),
        (NUMERIC, &config.numeric),
        (CATEGORICAL, &config.categorical),
        (DATES, &config.dates),
        (EMBED, config.embed.listed()),
    ];
    for (key, names) in lists {
        for name in names {
            table.column(name, key)?;
        }
        if let Some(name) = twice(names) {
            return Err(contradiction(name, key, key));
        }
    }
    for (first, one, second, other) in [
        (TARGET, target, COLUMNS, columns),
        (GROUP, group, TARGET, target),
        (GROUP, group, COLUMNS, columns),
        (WEIGHT, weight, TARGET, target),
        (WEIGHT, weight, COLUMNS, columns),
        (WEIGHT, weight, GROUP, group),
        (TARGET, target, IGNORE, &config.ignore),
        (COLUMNS, columns, IGNORE, &config.ignore),
        (NUMERIC, &config.numeric, CATEGORICAL, &config.categorical),
        (DATES, &config.dates, TARGET, target),
        (DATES, &config.dates, IGNORE, &config.ignore),
        (DATES, &config.dates, NUMERIC, &config.numeric),
        (DATES, &config.dates, CATEGORICAL, &config.categorical),
        (EMBED, config.embed.listed(), TARGET, target),
        (EMBED, config.embed.listed(), IGNORE, &config.ignore),
        (EMBED, config.embed.listed(), NUMERIC, &config.numeric),
        (EMBED, config.embed.listed(), DATES, &config.dates),
    ] {
        if let Some(name) = one.iter().find(|name| other.contains(name)) {
            return Err(contradiction(name, first, second));
        }
    }
    Ok(())
}

fn contradiction(name: &str, first: &'static str, second: &'static str) -> CsvError {
    CsvError::Contradiction {
        name: name.to_owned(),
        first,
        second,
    }
}

fn kind(
    table: &Table,
    config: &CsvConfig,
    missing: &Missing,
    name: &String,
    place: usize,
) -> Result<ColumnKind, CsvError> {
    let scan = Scan::of(table, place, 0..table.count(), missing);
    if scan.present() == 0 {
        return Err(CsvError::NoValues {
            file: table.file.clone(),
            name: name.clone(),
        });
    }
    if config.dates.contains(name) {
        let form = DateForm::of(table, config.date_order, missing, name, place)?;
        return Ok(ColumnKind::Date(form));
    }
    if config.categorical.contains(name) || config.embed.listed().contains(name) {
        return Ok(ColumnKind::Categorical);
    }
    let Some(text) = scan.first_text else {
        return Ok(ColumnKind::Numeric);
    };
    if config.numeric.contains(name) {
        let otherwise = "take the column out of `data.numeric`";
        return Err(not_a_number(table, text, place, otherwise));
    }
    if scan.is_mostly_numeric() {
        let otherwise = "list the column in `data.categorical`";
        return Err(not_a_number(table, text, place, otherwise));
    }
    let (found, rows) = (scan.counts().len(), scan.present());
    if found > 100 && found * 2 > rows {
        return Err(CsvError::TooManyCategories {
            file: table.file.clone(),
            name: name.clone(),
            found,
            rows,
            are_dates: scan.counts().texts().all(is_date),
        });
    }
    Ok(ColumnKind::Categorical)
}

impl DateForm {
    /// Finds what the dates of a column have in common.
    pub(super) fn of(
        table: &Table,
        order: Option<DateOrder>,
        missing: &Missing,
        name: &str,
        place: usize,
    ) -> Result<DateForm, CsvError> {
        let rows = (0..table.count()).map(|row| (row, table.field(row, place)));
        let rows = rows.filter(|(_, text)| !missing.is(text));
        let mut form = DateForm {
            order,
            has_days: false,
            has_times: false,
        };
        let mut dates = Vec::new();
        for (row, text) in rows {
            let found = WrittenDate::parse(text);
            let is_first = dates.is_empty();
            let found = found.filter(|date| is_first || date.has_day() == form.has_days);
            let date = found.ok_or_else(|| not_a_date(table, row, place, form.wanted(is_first)))?;
            form.has_days = date.has_day();
            form.has_times |= date.time.is_some();
            form.order = form.order.or_else(|| date.order());
            dates.push((row, date));
        }
        let line = |row| (table.file.clone(), table.line(row), name.to_owned());
        for (row, date) in dates {
            if date.moment(form.order).is_some() {
                continue;
            }
            let (file, line, name) = line(row);
            let found = printable(table.field(row, place));
            return Err(match form.order {
                None => CsvError::AmbiguousDate {
                    file,
                    line,
                    name,
                    found,
                },
                Some(order) => CsvError::DateOrder {
                    file,
                    line,
                    name,
                    found,
                    example: order.example(),
                },
            });
        }
        Ok(form)
    }

    fn wanted(self, is_first: bool) -> &'static str {
        match (is_first, self.has_days) {
            (true, _) => "dates or times such as `2024-01-31` or `17:05`",
            (false, true) => "dates such as `2024-01-31`, as the rows above it",
            (false, false) => "times such as `17:05`, as the rows above it",
        }
    }
}

/// Returns the error for a field that is not a date, where there must be one.
pub(super) fn not_a_date(
    table: &Table,
    row: usize,
    column: usize,
    wanted: &'static str,
) -> CsvError {
    CsvError::NotADate {
        file: table.file.clone(),
        line: table.line(row),
        name: table.names.get(column).cloned().unwrap_or_default(),
        found: printable(table.field(row, column)),
        wanted,
    }
}

/// Returns the error for a field that is not a number.
pub(super) fn not_a_number(
    table: &Table,
    row: usize,
    column: usize,
    otherwise: &'static str,
) -> CsvError {
    let found = table.field(row, column);
    CsvError::NotANumber {
        file: table.file.clone(),
        line: table.line(row),
        name: table.names.get(column).cloned().unwrap_or_default(),
        found: printable(found),
        reason: why_no_number(found),
        otherwise,
    }
}
