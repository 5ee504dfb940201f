//! Origin of an assignment.

/// Where an assignment was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignmentOrigin {
    /// With `--set`.
    CommandLine,
    /// In the environment variable with this name.
    Environment(String),
}
