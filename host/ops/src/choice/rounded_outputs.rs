//! Outputs that are kept as `bf16`, because only products that round them read them.
//!
//! Between two operations in the precision of [rounded products](super::rounded_products) a tensor is often read as a factor of
//! products alone, in both passes: a norm's outputs by a linear layer, queries, keys and values by attention. Kept as what those
//! make of it, it takes half the memory until the backward pass, and no bit of anything else changes. Who knows who reads a tensor
//! [asks for it](rounding_outputs).

use std::cell::Cell;

use candle_core::{CpuStorage, DType, Tensor};

use super::rounded_products::product_terms;
use crate::kernels::Terms;
use crate::storage::halves::halved;

thread_local! {
    static ARE_ROUNDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs one operation, a linear layer, a norm of rows or an attention, whose outputs become a tensor of `bf16` if its products are
/// rounded.
///
/// The bits of everything else stay the same if only operations that [round what they read](crate::rounds_linear) read the outputs.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use sconce_ops as ops;
///
/// # fn main() -> candle_core::Result<()> {
/// let x = Tensor::full(1.001_f32, (16, 16), &Device::Cpu)?;
/// let rounded = ops::rounded_products(true);
/// let y = ops::rounding_outputs(|| ops::linear(&x, &x, None))?;
/// drop(rounded);
/// assert!(y.dtype() == DType::BF16 || !ops::rounds_products());
/// # Ok(())
/// # }
/// ```
pub fn rounding_outputs<R>(operation: impl FnOnce() -> R) -> R {
    /// Restores what was asked for outside, even if the operation panics.
    struct Outer(bool);
    impl Drop for Outer {
        fn drop(&mut self) {
            ARE_ROUNDED.set(self.0);
        }
    }
    let _outer = Outer(ARE_ROUNDED.replace(true));
    operation()
}

/// How the outputs of an operation are kept.
#[derive(Clone, Copy)]
pub(crate) struct KeptOutputs {
    are_rounded: bool,
}

impl KeptOutputs {
    /// As asked for around the operation that is being made.
    pub(crate) fn asked() -> KeptOutputs {
        KeptOutputs {
            are_rounded: ARE_ROUNDED.get() && product_terms() == Terms::Pairs,
        }
    }

    /// The outputs as they are kept.
    pub(crate) fn of(self, outputs: CpuStorage) -> CpuStorage {
        match outputs {
            CpuStorage::F32(numbers) if self.are_rounded => halved(&numbers),
            other => other,
        }
    }
}

/// Whether a tensor is one of rounded outputs, which our operations with rounded products read.
pub(crate) fn is_rounded_output(x: &Tensor) -> bool {
    x.dtype() == DType::BF16 && x.device().is_cpu() && product_terms() == Terms::Pairs
}
