//! Values far from those of the training rows.

use crate::dataset::input::FarValue;
use crate::numbers::csv::date::Day;

/// A value further from those of the training rows, which it has as first and last, than [`FAR`] standard deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::numbers::csv) enum Far {
    Number(f64, [f64; 2]),
    /// In days since 1970.
    Day(f64, [f64; 2]),
}

/// Number of standard deviations beyond the training rows' values from which a value is reported.
pub(in crate::numbers::csv) const FAR: f64 = 10.0;

impl Far {
    pub(in crate::numbers::csv) fn at(self, line: u64, column: &str) -> FarValue {
        let (value, seen) = match self {
            Far::Number(value, seen) => (value.to_string(), seen.map(|seen| seen.to_string())),
            Far::Day(value, seen) => (Day(value).to_string(), seen.map(|day| Day(day).to_string())),
        };
        FarValue {
            line,
            column: column.to_owned(),
            value,
            seen,
        }
    }
}
