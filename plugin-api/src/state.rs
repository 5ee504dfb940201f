//! Hook state as bytes, for hooks whose state is a `serde` type.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Context, Result, bail};

/// The largest count that a state may have: 2^53, more than any run comes to. Sums of such counts do not
/// overflow, and every one of them is a float too.
pub const MOST: u64 = 1 << 53;

/// Writes `state` as JSON.
///
/// ```
/// use sconce_plugin_api::state;
///
/// let bytes = state::to_bytes(&("best", 0.25)).unwrap();
/// let (name, loss): (String, f64) = state::from_bytes(&bytes).unwrap();
/// assert_eq!((name.as_str(), loss), ("best", 0.25));
/// ```
///
/// JSON has no infinity and no not-a-number: an `f64` of that kind is written as `null` and can't be
/// read back. Keep a "best so far" that may still be infinite as an `Option<f64>`.
///
/// # Errors
///
/// Where the type has something that JSON can't say, such as a map with keys that are no text.
pub fn to_bytes<T: Serialize>(state: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(state).context("the state can't be written as JSON")
}

/// Reads what [`to_bytes`] wrote.
///
/// A checkpoint may come from anywhere, so its states are input from outside: of the right type, but with
/// any numbers, names and lengths. Check those before the first field of the hook is changed, counters by
/// [`check_count`], names of files by [`path_inside`](crate::path_inside).
///
/// # Errors
///
/// Where the bytes are no such JSON: the state of another version or of another hook.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).context("the state can't be read: it is another version's")
}

/// Checks a counter of a state, which is called `name` there: it is at most [`MOST`], so that the hook can
/// go on counting.
///
/// ```
/// use sconce_plugin_api::state;
///
/// assert!(state::check_count("waited", 3).is_ok());
/// let error = state::check_count("waited", u64::MAX).unwrap_err();
/// assert!(error.message().starts_with("the state's `waited` is 18446744073709551615"));
/// ```
///
/// # Errors
///
/// Where it is larger.
#[track_caller]
pub fn check_count(name: &str, count: u64) -> Result<()> {
    if count > MOST {
        bail!("the state's `{name}` is {count}, more than a run can count: at most {MOST}");
    }
    Ok(())
}

/// Checks a square matrix of counts of a state, which is called `name` there and stored row by row: it has
/// `side` × `side` counts, and their sum passes [`check_count`].
///
/// ```
/// use sconce_plugin_api::state;
///
/// assert!(state::check_matrix("confusion", 2, &[5, 0, 1, 4]).is_ok());
/// let error = state::check_matrix("confusion", 2, &[5, 0, 1]).unwrap_err();
/// assert!(error.message().starts_with("the state's `confusion` has 3 counts for 2 x 2"));
/// ```
///
/// # Errors
///
/// Where it is not square, or counts more.
#[track_caller]
pub fn check_matrix(name: &str, side: usize, counts: &[u64]) -> Result<()> {
    if side.checked_mul(side) != Some(counts.len()) {
        bail!(
            "the state's `{name}` has {} counts for {side} x {side}",
            counts.len()
        );
    }
    let sum = counts
        .iter()
        .try_fold(0_u64, |sum, count| sum.checked_add(*count));
    check_count(name, sum.unwrap_or(u64::MAX))
}
