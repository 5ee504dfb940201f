//! Why an optimizer can't be made, step, or be restored.

/// An optimizer's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A hyper-parameter is out of its range.
    #[error("`{name}` must be {range}, found {found}")]
    OutOfRange {
        /// Its name.
        name: &'static str,
        /// Its range in words.
        range: &'static str,
        /// What was given.
        found: f64,
    },
    /// Nesterov's momentum without momentum.
    #[error("`nesterov` needs a `momentum` above 0 and a `dampening` of 0")]
    Nesterov,
    /// Two parameter groups of one name.
    #[error(
        "two parameter groups are called `{0}` (`default` is the group of all other parameters)"
    )]
    DoubledGroup(String),
    /// A name pattern of a parameter group is none.
    #[error("a parameter group: {0}")]
    Pattern(String),
    /// A name pattern of a parameter group matches nothing.
    #[error(
        "`{pattern}` of the group `{group}` matches no parameter{}",
        nearest.as_ref().map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
    )]
    IdlePattern {
        /// The group.
        group: String,
        /// Its pattern.
        pattern: String,
        /// The nearest parameter's name.
        nearest: Option<String>,
    },
    /// A step failed.
    #[error("stepping `{parameter}`: {source}")]
    Step {
        /// The parameter's name.
        parameter: String,
        /// The error.
        source: candle_core::Error,
    },
    /// A state to be restored has a name that this optimizer has no use for.
    #[error("the saved optimizer state has `{0}`, which this model and optimizer don't")]
    UnknownState(String),
    /// A state to be restored has a wrong shape.
    #[error("the saved optimizer state `{name}` has the shape {found:?}, must have {wanted:?}")]
    StateShape {
        /// The state's name.
        name: String,
        /// The shape it has.
        found: Vec<usize>,
        /// The shape it must have.
        wanted: Vec<usize>,
    },
    /// A state to be restored has a number of steps that can't be one.
    #[error("the saved optimizer state `{name}` must be from 0 to 2^53, found {found}")]
    StateSteps {
        /// The state's name.
        name: String,
        /// The number.
        found: i64,
    },
    /// A state to be restored lacks a part.
    #[error(
        "the saved optimizer state lacks `{0}`: the file is incomplete, or another optimizer's"
    )]
    MissingState(String),
    /// candle's error while the state was read or written.
    #[error("the optimizer's state: {0}")]
    State(#[from] candle_core::Error),
}
