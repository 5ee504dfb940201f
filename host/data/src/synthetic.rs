//! What the data sets that are drawn from a seed share.

use super::Error;

/// An error unless a number is `inside` its range.
pub(super) fn range(
    key: &'static str,
    range: &'static str,
    found: f64,
    inside: bool,
) -> Result<(), Error> {
    if inside {
        Ok(())
    } else {
        Err(Error::Range { key, range, found })
    }
}
