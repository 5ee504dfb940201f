//! Errors for layers that do not fit, with the words that several kinds have in common.

use crate::parameters::ParametersError;
use crate::{Inputs, Signal};

/// A layer that does not fit, with its path in the manifest.
#[derive(Debug, thiserror::Error)]
#[error("the layer `{name}` ({kind}) {problem}")]
pub struct LayerError {
    /// Path inside the model's part of the manifest, e.g. `layers[2]`.
    pub path: String,
    /// Full name of the layer.
    pub name: String,
    /// Kind of the layer, as in the manifest.
    pub kind: &'static str,
    /// Rest of the message, after the layer's name and kind.
    pub problem: String,
    /// Whether it fits its input and not into memory.
    pub is_too_large: bool,
}

/// Text after the layer's name and kind in a [`LayerError`].
pub(super) struct LayerProblem {
    pub(super) text: String,
    /// See [`LayerError::is_too_large`].
    pub(super) is_too_large: bool,
}

impl LayerProblem {
    pub(super) fn new(text: impl Into<String>) -> LayerProblem {
        LayerProblem {
            text: text.into(),
            is_too_large: false,
        }
    }
}

impl From<ParametersError> for LayerProblem {
    fn from(error: ParametersError) -> LayerProblem {
        LayerProblem {
            is_too_large: matches!(error, ParametersError::TooLarge { .. }),
            text: format!("can't be made: {error}"),
        }
    }
}

impl From<candle_core::Error> for LayerProblem {
    fn from(error: candle_core::Error) -> LayerProblem {
        LayerProblem::new(format!("can't be made: {error}"))
    }
}

pub(super) fn wants(what: &str, input: &Signal) -> LayerProblem {
    LayerProblem::new(format!("wants {what}, its input is {input}"))
}

pub(super) fn wants_numbers(input: &Signal) -> Result<(), LayerProblem> {
    match input.content {
        Inputs::Numbers => Ok(()),
        Inputs::Columns(_) => Err(LayerProblem::new(format!(
            "wants numbers, its input is {input}; put `embed-categories` in front of it, or take the columns out of \
             `data.embed`"
        ))),
        Inputs::Tokens(_) => Err(LayerProblem::new(format!(
            "wants numbers, its input is {input}; put an `embedding` in front of it"
        ))),
    }
}

/// An error for an input whose length varies; what the layer computes has the length as a size of its own.
pub(super) fn wants_one_length(input: &Signal) -> Result<(), LayerProblem> {
    if !input.varies {
        return Ok(());
    }
    Err(LayerProblem::new(format!(
        "wants samples of one length, its input is {input}; select a position or take the mean over them before it, or pad all samples \
         to one length"
    )))
}

pub(super) fn no_room(input: &Signal, kernel: (usize, usize)) -> LayerProblem {
    LayerProblem::new(format!(
        "has a window of {kernel:?}, larger than its input, which is {input}; make the window \
         smaller, pad, or take out layers in front of it that shrink"
    ))
}

pub(super) fn first(input: &Signal) -> Result<usize, LayerProblem> {
    let first = input.shape.first().copied();
    first.ok_or_else(|| wants("(channels, …)", input))
}

/// The size of the last dimension, which is never a length that varies.
pub(super) fn last(input: &Signal) -> Result<usize, LayerProblem> {
    if input.shape.len() < 2 {
        wants_one_length(input)?;
    }
    let last = input.shape.last().copied();
    last.ok_or_else(|| wants("(…, width)", input))
}

/// Returns (length, width).
pub(super) fn rows(input: &Signal) -> Result<(usize, usize), LayerProblem> {
    match input.shape[..] {
        [length, width] => Ok((length, width)),
        _ => Err(wants("(length, width)", input)),
    }
}
