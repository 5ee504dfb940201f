//! Targets: the classes of one column, or the numbers of one or several.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::columns::{TARGET, not_a_number};
use super::table::Table;
use super::table::scan::{Missing, Scan, number};
use super::{CsvConfig, CsvError, TargetKind};
use crate::numbers::TargetValues;
use crate::{TargetScale, Targets};

/// Target columns and their kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredTarget", into = "StoredTarget")]
pub(super) struct TargetColumns {
    pub(super) names: Vec<String>,
    /// Classes are those of the complete training file, so that one that only the test has is known.
    pub(super) targets: Targets,
}

/// Serialised form of target columns.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTarget {
    columns: Vec<String>,
    #[serde(with = "crate::targets::names")]
    targets: Targets,
}

impl From<TargetColumns> for StoredTarget {
    fn from(target: TargetColumns) -> StoredTarget {
        StoredTarget {
            columns: target.names,
            targets: target.targets,
        }
    }
}

impl TryFrom<StoredTarget> for TargetColumns {
    type Error = String;

    fn try_from(stored: StoredTarget) -> Result<TargetColumns, String> {
        let StoredTarget { columns, targets } = stored;
        let fits = match &targets {
            Targets::Class(_) => columns.len() == 1,
            Targets::Numbers(names) => *names == columns,
            Targets::None => columns.is_empty(),
            Targets::ClassPerPosition(_) | Targets::TokenPerPosition(_) => false,
        };
        if !fits {
            return Err(
                "a table's targets are classes of one column, numbers named as their columns, or none"
                    .to_owned(),
            );
        }
        Ok(TargetColumns {
            names: columns,
            targets,
        })
    }
}

impl TargetColumns {
    /// Determines the targets of a table.
    pub(super) fn of(
        table: &Table,
        config: &CsvConfig,
        missing: &Missing,
    ) -> Result<TargetColumns, CsvError> {
        let names = config.target.all();
        let kind = match (config.target_kind, names) {
            (Some(kind), _) => kind,
            (None, [name]) => infer(table, name, missing)?,
            (None, _) => TargetKind::Numbers,
        };
        let targets = match (kind, names) {
            (_, []) => Targets::None,
            (TargetKind::Numbers, _) => Targets::Numbers(names.to_vec()),
            (TargetKind::Classes, [name]) => {
                let place = table.column(name, TARGET)?;
                let scan = Scan::of(table, place, 0..table.count(), missing);
                let sorted = scan.sorted().into_iter();
                Targets::Class(sorted.map(|(text, _)| text.to_owned()).collect())
            }
            (TargetKind::Classes, _) => {
                return Err(CsvError::SeveralClasses { found: names.len() });
            }
        };
        Ok(TargetColumns {
            names: names.to_vec(),
            targets,
        })
    }

    /// Returns the indices of the target columns; `key` is the option that names them, for messages.
    pub(super) fn places(&self, table: &Table, key: &'static str) -> Result<Vec<usize>, CsvError> {
        let names = self.names.iter();
        names.map(|name| table.column(name, key)).collect()
    }

    /// Returns the targets of these rows, none of which is missing.
    pub(super) fn values(
        &self,
        table: &Table,
        places: &[usize],
        rows: &[usize],
    ) -> Result<TargetValues, CsvError> {
        let fields = rows
            .iter()
            .flat_map(|&row| places.iter().map(move |&place| (row, place)));
        match &self.targets {
            Targets::None => Ok(self.nothing(rows.len())),
            Targets::Numbers(_) => {
                let value = |(row, place)| {
                    let value = number(table.field(row, place)).map(|value| value as f32);
                    let otherwise = "set `data.target_kind` to \"classes\"";
                    value.ok_or_else(|| not_a_number(table, row, place, otherwise))
                };
                Ok(TargetValues::Numbers(
                    fields.map(value).collect::<Result<_, _>>()?,
                ))
            }
            classes => {
                let classes = classes.names();
                let numbered = classes.iter().map(String::as_str).zip(0_u32..);
                let numbers: HashMap<&str, u32> = numbered.collect();
                let class = |(row, place)| {
                    let class = numbers.get(table.field(row, place)).copied();
                    class.ok_or_else(|| unknown_class(table, row, place, classes))
                };
                Ok(TargetValues::Classes(
                    fields.map(class).collect::<Result<_, _>>()?,
                ))
            }
        }
    }

    /// Returns placeholder targets for this many rows.
    pub(super) fn nothing(&self, rows: usize) -> TargetValues {
        match &self.targets {
            Targets::Numbers(names) => TargetValues::Numbers(vec![0.0; rows * names.len()]),
            _ => TargetValues::Classes(vec![0; rows]),
        }
    }
}

/// Returns the values of these rows if they can all be scaled.
pub(super) fn scalable<'a>(
    table: &Table,
    places: &[usize],
    rows: &[usize],
    values: &'a TargetValues,
    scale: TargetScale,
) -> Result<&'a [f32], CsvError> {
    let TargetValues::Numbers(numbers) = values else {
        return Err(CsvError::ScaledClasses);
    };
    let fields = rows
        .iter()
        .flat_map(|&row| places.iter().map(move |&place| (row, place)));
    for ((row, place), value) in fields.zip(numbers) {
        if !scale.takes(*value) {
            return Err(CsvError::NotScalable {
                file: table.file.clone(),
                line: table.line(row),
                name: table.names.get(place).cloned().unwrap_or_default(),
                found: table.field(row, place).to_owned(),
                scale,
            });
        }
    }
    Ok(numbers)
}

/// Returns numbers if the column has only numbers, otherwise classes.
fn infer(table: &Table, name: &str, missing: &Missing) -> Result<TargetKind, CsvError> {
    let place = table.column(name, TARGET)?;
    let scan = Scan::of(table, place, 0..table.count(), missing);
    match scan.first_text {
        _ if scan.present() == 0 => Err(CsvError::NothingLeft {
            file: table.file.clone(),
        }),
        None => Ok(TargetKind::Numbers),
        Some(row) if scan.is_mostly_numeric() => {
            let otherwise = "set `data.target_kind` to \"classes\"";
            Err(not_a_number(table, row, place, otherwise))
        }
        Some(_) => Ok(TargetKind::Classes),
    }
}

fn unknown_class(table: &Table, row: usize, place: usize, classes: &[String]) -> CsvError {
    CsvError::UnknownClass {
        file: table.file.clone(),
        line: table.line(row),
        name: table.names.get(place).cloned().unwrap_or_default(),
        found: table.field(row, place).to_owned(),
        classes: classes.to_vec(),
    }
}
