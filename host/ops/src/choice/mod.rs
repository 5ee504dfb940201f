//! How an operation is computed: by our kernels for the CPU, by those for its device, or composed of candle's operations; and in which
//! type (`autocast`), with which rounding (`rounded_products`), and how outputs are kept (`rounded_outputs`).

pub(super) mod autocast;
pub(super) mod rounded_outputs;
pub(super) mod rounded_products;

use std::sync::OnceLock;

use candle_core::{DType, Device, Tensor};

use crate::choice::autocast::{autocast_dtype, is_narrow};
use crate::choice::rounded_outputs::is_rounded_output;

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

/// As [`is_chosen`], of an operation whose products read rounded outputs as they are kept.
pub(crate) fn is_chosen_for_products(x: &Tensor) -> bool {
    is_chosen(x) && !is_rounded_output(x)
}

/// Whether there may be a kernel of ours for this tensor on its device: it is on a GPU, not empty, and of a type that kernels take.
///
/// All that models commonly consist of is recorded there. What is composed should then be recorded too: behind an operation of candle's
/// the backward pass is candle's, with zeros and an addition for each activation, and no gradient is complete before its end.
pub(crate) fn has_kernels(x: &Tensor) -> bool {
    cfg!(feature = "cuda")
        && matches!(x.device(), Device::Cuda(_))
        && matches!(x.dtype(), DType::F32 | DType::BF16)
        && x.elem_count() > 0
        && !is_requested()
}
