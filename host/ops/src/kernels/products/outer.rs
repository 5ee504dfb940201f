//! Outer products: matrix multiplications of depth 1, such as a linear layer's weight gradient of a single sample.
//!
//! They write far more than they read and multiply once for each element, which leaves nothing to a kernel that works in
//! blocks: the crate `gemm` takes three times as long.

use std::mem::MaybeUninit;

use crate::kernels::math::Number;
use crate::kernels::write_all;
use crate::vectorised;

vectorised! {
    /// Writes a row of the product: the row's factor times each element of the right matrix.
    pub(super) fn write_row<'a, T: Number>(
        factor: T,
        right: &[T],
        to: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        write_all(to, right.iter().map(|&element| factor * element))
    }
}
