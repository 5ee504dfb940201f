//! Common parts of data sets generated from a seed.

use crate::DataError;

/// Returns an error unless a value is `inside` its range.
pub(super) fn range(
    key: &'static str,
    range: &'static str,
    found: f64,
    inside: bool,
) -> Result<(), DataError> {
    if inside {
        Ok(())
    } else {
        Err(DataError::Range { key, range, found })
    }
}
