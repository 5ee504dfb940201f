//! Every operation composed of candle's own, with right gradients: for devices that our kernels don't compute on.
//!
//! It is chosen for tensors that are not on the CPU, and for all if the environment variable [`VARIABLE`] says so. An operation
//! of this module gives its kernel's numbers up to rounding, not its bits. Operations of candle's whose gradients are wrong
//! (`docs/candle-gradients.md`) are avoided.
//!
//! - `convolution`, `pooling`, `windows`: windows of images, gathered by indices, which `tables` keeps;
//! - `given`, `output`: operations whose gradient is composed too;
//! - `attention`: attention and softmax; `norms`: batch, layer and RMS norm; `losses`; `sequences`: embeddings, positions,
//!   transposition; `functions`: element by element.

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
mod convolution;
mod functions;
mod given;
mod losses;
mod norms;
mod output;
mod pooling;
mod sequences;
mod tables;
#[cfg(test)]
mod tests;
mod windows;

use std::sync::OnceLock;

use candle_core::{Result, Tensor};

pub(crate) use attention::{attention, softmax};
pub(crate) use convolution::conv2d;
pub(crate) use functions::{add, add_relu, apply, linear, masked};
pub(crate) use given::given1;
#[cfg(feature = "cuda")]
pub(crate) use given::{given_of_output1, given_of_output2, given_of_output3, given2, given3};
pub(crate) use losses::{cross_entropy, cross_entropy_on_device, is_finite, mean_squared_error};
pub(crate) use norms::{batch_norm, layer_norm, rms_norm, statistics};
pub(crate) use output::Output;
pub(crate) use pooling::pool2d;
pub(crate) use sequences::{add_positions, embedding, mean_positions, transpose};
#[cfg(feature = "cuda")]
pub(crate) use tables::Tables;
pub(crate) use windows::unfold2d;

use crate::autocast::{autocast_dtype, is_narrow};
use crate::constants::{made, seen};

/// Environment variable that chooses how operations are computed on the CPU: `composed`, or anything else for our kernels.
///
/// For checks of the composed operations where there is no other device.
pub const VARIABLE: &str = "SCONCE_OPS";

/// Whether operations are composed on the CPU too: [`VARIABLE`] says so.
pub fn is_requested() -> bool {
    static REQUESTED: OnceLock<bool> = OnceLock::new();
    *REQUESTED.get_or_init(|| std::env::var_os(VARIABLE).is_some_and(|it| it == "composed"))
}

/// Whether what is computed with this tensor is composed of candle's operations: on devices other than the CPU, and
/// everywhere if the environment variable [`VARIABLE`] says so.
pub fn are_composed(x: &Tensor) -> bool {
    !x.device().is_cpu() || is_requested()
}

/// Whether an operation on this tensor is composed: our kernels neither know other devices nor narrow types.
pub(crate) fn is_chosen(x: &Tensor) -> bool {
    are_composed(x) || autocast_dtype().is_some() || is_narrow(x.dtype())
}

/// Whether there are kernels of ours for this tensor, so that all that models commonly consist of is recorded. What is composed should
/// then be recorded too: behind an operation of candle's the backward pass is candle's, with zeros and an addition for each activation,
/// and no gradient is complete before its end.
pub(crate) fn has_kernels(x: &Tensor) -> bool {
    #[cfg(feature = "cuda")]
    return crate::cuda::takes(x);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = x;
        false
    }
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
