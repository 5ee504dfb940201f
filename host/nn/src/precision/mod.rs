//! Precision of products and activations.

use std::fmt;

use candle_core::{DType, Device, Result, Tensor, cuda};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ops::{self, Autocast, RoundedProducts};

/// Precision of products and activations. Parameters, their gradients and the optimizer's state are `f32` in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Everything in `f32`.
    #[default]
    F32,
    /// Factors of products rounded to 10 bits after the point, sums in `f32`: by the tensor cores of an NVIDIA GPU of
    /// compute capability 8.0 or more; elsewhere as `f32`.
    Tf32,
    /// On a GPU products and most activations in `bf16`, with 7 bits after the point, sums in `f32`; norms, softmax and
    /// losses in `f32`, by the rules of PyTorch's `torch.autocast`. On the CPU the factors of products are rounded so, of linear
    /// layers, attention and most convolutions; activations that are nothing but factors are kept rounded, and all other tensors stay
    /// `f32` ([`ops::rounded_products`], [`ops::rounding_outputs`]).
    Bf16,
}

impl Precision {
    /// All of them, in the order of falling precision.
    pub const ALL: [Precision; 3] = [Precision::F32, Precision::Tf32, Precision::Bf16];

    /// Returns its name in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
        }
    }

    /// Computes forward and backward passes of this thread on a device in this precision until the result is dropped.
    ///
    /// Products in TF32 are a switch of the process: it stays as the last call on any thread has set it.
    pub fn begin(self, device: &Device) -> PrecisionScope {
        cuda::set_gemm_reduced_precision_f32(self == Precision::Tf32);
        let is_narrow = self == Precision::Bf16;
        let is_rounded = self.rounds(device);
        PrecisionScope {
            _cast: ops::autocast((is_narrow && !is_rounded).then_some(DType::BF16)),
            _rounded: ops::rounded_products(is_rounded),
        }
    }

    /// Whether our kernels round what they multiply on this device.
    fn rounds(self, device: &Device) -> bool {
        self == Precision::Bf16 && device.is_cpu() && !ops::are_composed_on_cpu()
    }

    /// Name of the arithmetic of rounded products on this device, if there are any: results depend on it as on the device.
    pub fn products(self, device: &Device) -> Option<&'static str> {
        (self.rounds(device))
            .then(ops::rounded_products_kind)
            .flatten()
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Passes of this thread have a [`Precision`] until it is dropped.
#[derive(Debug)]
#[must_use = "passes have the precision as long as it lives"]
pub struct PrecisionScope {
    _cast: Autocast,
    _rounded: RoundedProducts,
}

/// Returns a tensor in `f32` if its type is narrower.
pub(crate) fn widened(x: &Tensor) -> Result<Tensor> {
    match x.dtype() {
        DType::BF16 | DType::F16 => ops::cast(x, DType::F32),
        _ => Ok(x.clone()),
    }
}

#[cfg(test)]
mod tests;
