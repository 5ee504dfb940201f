//! What is wrong in a document.

/// Something wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path of the value inside the one that was checked, as `train.epochs`; for an unknown
    /// key, the path of that key.
    pub path: String,
    /// Whether the key is meant rather than its value.
    pub is_key: bool,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The key, where one is unknown.
    pub unknown: Option<String>,
    /// The key, where one is missing.
    pub missing: Option<String>,
    /// Whether a missing key is the one that says of which kind the object is.
    pub is_tag: bool,
    /// Whether an unknown key is a known one with a letter or two changed.
    pub is_slip: bool,
}

impl Problem {
    /// Something wrong with the value at a path.
    pub(super) fn new(path: String, message: String, hint: Option<String>) -> Problem {
        Problem {
            path,
            is_key: false,
            message,
            hint,
            unknown: None,
            missing: None,
            is_tag: false,
            is_slip: false,
        }
    }
}
