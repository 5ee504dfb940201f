//! `sconce.given-loss/1`: the loss of a batch, computed by a hook.

use super::{TensorAbi, extension};
use crate::abi::Refusal;

/// The loss of the batch, given at `after_forward` in the place of the task's: what a manifest with `"loss": "given"` needs in each
/// batch, of evaluations too. Hooks that give it run on all ranks.
#[extension("sconce.given-loss/1", local)]
pub trait GivenLoss {
    /// Sets the batch's loss, a mean over its samples, and its gradient with respect to the batch's `outputs`.
    ///
    /// The gradient has the outputs' shape, or one dimension with as many elements in row-major order; `f32` or `f64`, contiguous,
    /// and copied. It is looked at in training alone, and may be empty otherwise.
    ///
    /// # Safety
    ///
    /// What the tensor points to is readable during the call.
    unsafe fn set(&self, value: f64, gradient: &TensorAbi) -> Result<(), Refusal>;
}
