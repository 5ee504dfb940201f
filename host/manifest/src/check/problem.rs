//! A problem found in a document.

/// A problem with a value or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestProblem {
    /// The path of the value within the checked document, such as `train.epochs`. For an unknown key, it is
    /// the path of that key.
    pub path: String,
    /// Whether the problem is the key rather than its value.
    pub is_key: bool,
    /// States the problem.
    pub message: String,
    /// Suggests a remedy.
    pub hint: Option<String>,
    /// Describes the value that is expected.
    pub about: Option<String>,
    /// The key, if the problem is an unknown one.
    pub unknown: Option<String>,
    /// The key, if the problem is a missing one.
    pub missing: Option<String>,
    /// Whether the missing key is the tag that selects the kind of the object.
    pub is_tag: bool,
    /// Whether the unknown key looks like a typo of a known one.
    pub is_slip: bool,
}

impl ManifestProblem {
    /// A problem with the value at a path.
    pub(crate) fn new(path: String, message: String, hint: Option<String>) -> ManifestProblem {
        ManifestProblem {
            path,
            is_key: false,
            message,
            hint,
            about: None,
            unknown: None,
            missing: None,
            is_tag: false,
            is_slip: false,
        }
    }
}
