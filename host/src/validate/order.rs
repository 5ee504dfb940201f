//! What the process of a test is told to do.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The file that says what the test is doing, for the case that it does not come back.
pub(super) const DOING: &str = "doing.txt";

/// What a test is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// What the answer must carry.
    pub(super) token: String,
    /// The test's name.
    pub(super) test: String,
    /// The library.
    pub(super) library: PathBuf,
    /// The hook's name; empty for tests of the library.
    pub(super) hook: String,
    /// The hook's configuration, if the user gave one.
    pub(super) config: Option<Value>,
    /// The seed of everything random.
    pub(super) seed: u64,
    /// A directory of the test's own.
    pub(super) place: PathBuf,
}
