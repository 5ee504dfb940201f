//! Hook state as bytes, and checks of restored state.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Context, Result, bail};

/// Largest count that a state may contain: 2^53, more than any run reaches.
///
/// Sums of such counts do not overflow, and all of them are exactly representable as `f64`.
pub const MOST: u64 = 1 << 53;

/// Serialises `state` as JSON.
///
/// ```
/// use sconce_plugin_api::state;
///
/// let bytes = state::to_bytes(&("best", 0.25)).unwrap();
/// let (name, loss): (String, f64) = state::from_bytes(&bytes).unwrap();
/// assert_eq!((name.as_str(), loss), ("best", 0.25));
/// ```
///
/// JSON has neither infinity nor NaN: such an `f64` is written as `null` and can't be read back. Store a
/// "best so far" that may still be infinite as an `Option<f64>`.
///
/// # Errors
///
/// If the type contains something that JSON cannot represent, such as a map whose keys are not strings.
pub fn to_bytes<T: Serialize>(state: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(state).context("the state can't be written as JSON")
}

/// Deserialises a state written by [`to_bytes`].
///
/// Checkpoints may come from anywhere, so a state is untrusted input: it has the right type, but may contain
/// any numbers, names and lengths. Validate these before changing the first field of the hook: counters with
/// [`check_count`], file names with [`path_inside`](crate::path_inside).
///
/// # Errors
///
/// If the bytes are not JSON of this type, e.g. the state of another version or of another hook.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).context("the state can't be read: it is another version's")
}

/// Checks that a counter from a state is at most [`MOST`], so that counting can continue.
///
/// `name` is the counter's name in the message.
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
/// If it is larger.
#[track_caller]
pub fn check_count(name: &str, count: u64) -> Result<()> {
    if count > MOST {
        bail!("the state's `{name}` is {count}, more than a run can count: at most {MOST}");
    }
    Ok(())
}

/// Checks a square matrix of counts from a state, stored row by row.
///
/// It must have `side` × `side` counts whose sum passes [`check_count`]; `name` is its name in the message.
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
/// If it has another number of elements, or the sum is larger than [`MOST`].
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
