//! A module's tensors recorded for its backward pass.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::Tensor;

/// Slot in which an identity operation leaves the gradient that passed through it.
pub(super) type Slot = Arc<Mutex<Option<Tensor>>>;

pub(super) fn content(slot: &Slot) -> Option<Tensor> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A module's tensors, recorded in the forward pass and reported to hooks after the backward pass.
pub(super) struct Record {
    pub(super) module: usize,
    pub(super) input: Tensor,
    /// Empty if the input is itself a variable.
    pub(super) input_gradient: Slot,
    pub(super) output: Option<(Tensor, Slot)>,
}
