//! Instructions for the process of a test.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// File that records the current action of the test, in case the process does not complete it.
pub(super) const DOING: &str = "doing.txt";

/// Instructions for one test.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TestOrder {
    /// Token that the answer must contain.
    pub(super) token: String,
    /// Name of the test.
    pub(super) test: String,
    /// Path of the library.
    pub(super) library: PathBuf,
    /// Name of the hook; empty for tests of the library.
    pub(super) hook: String,
    /// The hook's configuration, if the user gave one.
    pub(super) config: Option<Value>,
    /// Seed of everything random.
    pub(super) seed: u64,
    /// Directory for this test only.
    pub(super) place: PathBuf,
}
