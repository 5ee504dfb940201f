//! What the backward pass is to report of a module.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::Tensor;

/// Where an identity leaves the gradient that went through it.
pub(super) type Slot = Arc<Mutex<Option<Tensor>>>;

pub(super) fn content(slot: &Slot) -> Option<Tensor> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// What the backward pass of a batch is to be told of a module.
pub(super) struct Record {
    pub(super) module: usize,
    pub(super) input: Tensor,
    /// Empty where the input is a variable of its own.
    pub(super) input_gradient: Slot,
    pub(super) output: Option<(Tensor, Slot)>,
}
