//! Products whose factors are rounded to `bf16` by our kernels for the CPU.
//!
//! While it is [asked for](rounded_products), what is multiplied is rounded, in both passes, and added up in `f32`; tensors stay
//! `f32`, but for those [kept rounded](super::rounded_outputs). So it is in linear layers of at least 16 rows, inputs and outputs, in attention, and in convolutions without a matrix of
//! windows: 1 × 1, and those that neither Winograd's algorithm nor a kernel for depthwise ones computes. Processors that have an
//! instruction for it (AVX-512 BF16) multiply twice as fast so; others with AVX2 give the same bits, slowly. Without AVX2 nothing is
//! rounded.
//!
//! Source of the arithmetic: `VDPBF16PS` in Intel's Software Developer's Manual. Of each pair of elements along the depth the second
//! product is added first, each sum is rounded to the nearest, and denormal numbers are zero.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::kernels::{Terms, has_pairs, has_tiles};

thread_local! {
    static IS_ROUNDED: Cell<bool> = const { Cell::new(false) };
}

/// Products of this thread are rounded, or not, until it is dropped.
#[derive(Debug)]
#[must_use = "products are rounded as long as it lives"]
pub struct RoundedProducts {
    outer: bool,
    /// Makes it `!Send`: it belongs to its thread.
    thread: PhantomData<*const ()>,
}

/// Rounds the factors of this thread's products on the CPU to `bf16`, or not, until the result is dropped.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use sconce_ops as ops;
///
/// # fn main() -> candle_core::Result<()> {
/// let x = Tensor::full(1.001_f32, (16, 16), &Device::Cpu)?;
/// let rounded = ops::rounded_products(true);
/// let y = ops::linear(&x, &x, None)?.get(0)?.get(0)?.to_scalar::<f32>()?;
/// drop(rounded);
/// assert!(y == 16.0 || !ops::rounds_products());
/// # Ok(())
/// # }
/// ```
pub fn rounded_products(is_rounded: bool) -> RoundedProducts {
    RoundedProducts {
        outer: IS_ROUNDED.replace(is_rounded),
        thread: PhantomData,
    }
}

impl Drop for RoundedProducts {
    fn drop(&mut self) {
        IS_ROUNDED.set(self.outer);
    }
}

/// Whether this processor can round products: it has AVX2.
pub fn rounds_products() -> bool {
    has_tiles()
}

/// Whether rounded products are faster than others here.
pub fn rounded_products_are_fast() -> bool {
    has_pairs()
}

/// Name of the arithmetic of rounded products on this processor; none where it can't round them.
///
/// Instructions of other processors add up in another order, with other bits. What gives the same bits, in one instruction or in several,
/// has the same name.
pub fn rounded_products_kind() -> Option<&'static str> {
    has_tiles().then_some("pairs")
}

/// The terms of this thread's products.
pub(crate) fn product_terms() -> Terms {
    if IS_ROUNDED.get() && has_tiles() {
        Terms::Pairs
    } else {
        Terms::Singles
    }
}
