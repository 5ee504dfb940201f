//! Hook state as bytes, for hooks whose state is a `serde` type.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Context, Result};

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
/// # Errors
///
/// Where the bytes are no such JSON: the state of another version or of another hook.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).context("the state can't be read: it is another version's")
}
