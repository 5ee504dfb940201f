//! A module's tensors recorded for its backward pass.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::Tensor;

/// Slot in which an identity operation leaves the gradient that passed through it.
pub(in crate::run) type Slot = Arc<Mutex<Option<Tensor>>>;

pub(in crate::run) fn content(slot: &Slot) -> Option<Tensor> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A module's tensors, recorded in the forward pass and reported to hooks after the backward pass.
pub(in crate::run) struct Record {
    pub(in crate::run) module: usize,
    pub(in crate::run) input: Tensor,
    /// Empty if the input is itself a variable.
    pub(in crate::run) input_gradient: Slot,
    pub(in crate::run) output: Option<(Tensor, Slot)>,
}
