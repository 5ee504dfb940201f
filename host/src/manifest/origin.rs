//! Where an assignment was written.

/// Where an assignment was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// With `--set`.
    CommandLine,
    /// In the environment variable of this name.
    Environment(String),
}
