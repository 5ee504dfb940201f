//! Errors of creating, stepping or restoring an optimizer.

use sconce_parameters::groups::GroupsError;

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
    /// A variance that would be computed from rounded moments.
    #[error(
        "`moments` can't be `bf16` with `centered`: the variance is a small difference of two moments, and would be lost in their rounding"
    )]
    NarrowVariance,
    /// Moments in `bf16` on a device that has no kernels for them.
    #[error(
        "`moments` can be `bf16` on a CPU alone: the kernels that step on a GPU keep them in `f32`"
    )]
    NarrowOnDevice,
    /// The parameter groups of the manifest do not fit the model.
    #[error(transparent)]
    Groups(#[from] GroupsError),
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
    /// A saved state is not of floating-point numbers.
    #[error("the saved optimizer state `{name}` has the type {found}, must be floating-point")]
    StateType {
        /// Name of the state.
        name: String,
        /// Type of the saved state.
        found: &'static str,
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
