//! Every operation composed of candle's own, with right gradients: for devices that our kernels don't compute on.
//!
//! It is [chosen](is_chosen) for tensors that are not on the CPU, and for all if an environment variable says so. An operation
//! of this module gives its kernel's numbers up to rounding, not its bits. Operations of candle's whose gradients are wrong
//! (`docs/candle-gradients.md`) are avoided.
//!
//! - `convolution`, `pooling`, `windows`: windows of images, gathered by indices;
//! - `attention`: attention and softmax; `norms`: batch, layer and RMS norm; `losses`; `sequences`: embeddings, positions,
//!   transposition; `recurrent`: LSTM and GRU; `functions`: element by element; `cast`: tensors in another type.

/// Returns from a function with the output of a device's own kernel, if there is one for these inputs.
macro_rules! own_kernel {
    ($output:expr) => {
        #[cfg(feature = "cuda")]
        if let Some(output) = $output? {
            return Ok(output);
        }
    };
}

mod attention;
pub(super) mod cast;
mod convolution;
mod functions;
mod losses;
mod norms;
mod pooling;
mod recurrent;
mod sequences;
#[cfg(test)]
mod tests;
mod windows;

use candle_core::{Result, Tensor};

pub(crate) use attention::{attention, attention_of, rotated, softmax};
pub(crate) use convolution::conv2d;
pub(crate) use functions::{add, add_relu, apply, linear, masked, multiply};
pub(crate) use losses::{cross_entropy, cross_entropy_on_device, is_finite, mean_squared_error};
pub(crate) use norms::{batch_norm, layer_norm, rms_norm, statistics};
pub(crate) use pooling::pool2d;
pub(crate) use recurrent::recurrent;
pub(crate) use sequences::{add_positions, embedding_with, mean_positions, transpose};
pub(crate) use windows::unfold2d;

use crate::autograd::constants::{made, seen};
pub(crate) use crate::choice::{is_chosen, is_chosen_for_products};

/// Computes an operation of these inputs, of which held ones are constants.
fn of<const N: usize>(
    inputs: [&Tensor; N],
    compute: impl FnOnce([&Tensor; N]) -> Result<Tensor>,
) -> Result<Tensor> {
    let seen = inputs.map(seen);
    let output = compute(seen.each_ref().map(|input| &**input))?;
    made(&output);
    Ok(output)
}
