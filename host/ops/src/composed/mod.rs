//! Every operation composed of candle's own, with right gradients: for devices that our kernels don't compute on.
//!
//! It is chosen for tensors that are not on the CPU, and for all if the environment variable [`VARIABLE`] says so. An operation
//! of this module gives its kernel's numbers up to rounding, not its bits. Operations of candle's whose gradients are wrong
//! (`docs/candle-gradients.md`) are avoided.
//!
//! - `windows`: convolutions and pooling, whose windows are gathered by indices;
//! - `attention`: attention and softmax; `norms`: batch, layer and RMS norm; `losses`; `sequences`: embeddings, positions,
//!   transposition; `functions`: element by element.

mod attention;
mod functions;
mod losses;
mod norms;
mod sequences;
#[cfg(test)]
mod tests;
mod windows;

use std::sync::OnceLock;

use candle_core::{Result, Tensor};

pub(crate) use attention::{attention, softmax};
pub(crate) use functions::{add, add_relu, apply, linear, masked};
pub(crate) use losses::{cross_entropy, is_finite, mean_squared_error};
pub(crate) use norms::{batch_norm, layer_norm, rms_norm, statistics};
pub(crate) use sequences::{add_positions, embedding, mean_positions, transpose};
pub(crate) use windows::{conv2d, pool2d, unfold2d};

use crate::constants::{made, seen};

/// Environment variable that chooses how operations are computed on the CPU: `composed`, or anything else for our kernels.
///
/// For checks of the composed operations where there is no other device.
pub const VARIABLE: &str = "SCONCE_OPS";

/// Whether operations on this tensor are composed.
pub(crate) fn is_chosen(x: &Tensor) -> bool {
    static REQUESTED: OnceLock<bool> = OnceLock::new();
    let is_requested =
        || *REQUESTED.get_or_init(|| std::env::var_os(VARIABLE).is_some_and(|it| it == "composed"));
    !x.device().is_cpu() || is_requested()
}

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
