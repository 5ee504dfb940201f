//! Errors of creating, stepping or restoring an optimizer.

/// An optimizer's error.
#[derive(Debug, thiserror::Error)]
pub enum OptimizerError {
    /// A hyper-parameter is out of range.
    #[error("`{name}` must be {range}, found {found}")]
    OutOfRange {
        /// Name of the hyper-parameter.
        name: &'static str,
        /// Range in words.
        range: &'static str,
        /// Value in the manifest.
        found: f64,
    },
    /// Nesterov momentum without momentum, or with dampening.
    #[error("`nesterov` needs a `momentum` above 0 and a `dampening` of 0")]
    Nesterov,
    /// Two parameter groups have the same name.
    #[error(
        "two parameter groups are called `{0}` (`default` is the group of all other parameters)"
    )]
    DoubledGroup(String),
    /// A name pattern of a parameter group is invalid.
    #[error("a parameter group: {0}")]
    Pattern(String),
    /// A name pattern of a parameter group matches no parameter.
    #[error(
        "`{pattern}` of the group `{group}` matches no parameter{}",
        nearest.as_ref().map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
    )]
    IdlePattern {
        /// Name of the group.
        group: String,
        /// Pattern without a match.
        pattern: String,
        /// Nearest parameter name.
        nearest: Option<String>,
    },
    /// A step failed.
    #[error("stepping `{parameter}`: {source}")]
    Step {
        /// Name of the parameter.
        parameter: String,
        /// candle's error.
        source: candle_core::Error,
    },
    /// A saved state has a name that this optimizer does not use.
    #[error("the saved optimizer state has `{0}`, which this model and optimizer don't")]
    UnknownState(String),
    /// A saved state has the wrong shape.
    #[error("the saved optimizer state `{name}` has the shape {found:?}, must have {wanted:?}")]
    StateShape {
        /// Name of the state.
        name: String,
        /// Shape of the saved state.
        found: Vec<usize>,
        /// Required shape.
        wanted: Vec<usize>,
    },
    /// A saved number of steps is negative or too large.
    #[error("the saved optimizer state `{name}` must be from 0 to 2^53, found {found}")]
    StateSteps {
        /// Name of the state.
        name: String,
        /// Saved value.
        found: i64,
    },
    /// A saved state is incomplete.
    #[error(
        "the saved optimizer state lacks `{0}`: the file is incomplete, or another optimizer's"
    )]
    MissingState(String),
    /// candle failed while the state was read or written.
    #[error("the optimizer's state: {0}")]
    State(#[from] candle_core::Error),
}
