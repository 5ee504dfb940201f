//! Passes over several vectors at once, such as all parameters or all gradients: sums, changes and combinations.
//!
//! Each pass is one parallel region over chunks of [`CHUNK`] elements, so that vectors of all sizes share the threads.
//! Neither the number of threads nor the instruction set changes a bit: chunks have a fixed size, and their sums are
//! added in order.
//!
//! - `passes`: what they do on the CPU;
//! - `totals`: reductions of a chunk;
//! - `chunks`: how vectors are cut;
//! - `tensors`: the same passes over tensors on a device.

mod chunks;
mod passes;
mod tensors;
#[cfg(test)]
mod tests;
mod totals;

use candle_core::WithDType;

use crate::kernels::math::Number;
pub use crate::options::{Change, Combination, Reduction, Slices};

pub use chunks::CHUNK;
pub use tensors::{change_tensors, combine_tensors, reduce_on_device, reduce_tensors};

/// A float type of the vectors: `f32` or `f64`.
#[expect(private_bounds, reason = "only this crate calls kernels")]
pub trait Element: Number {
    /// The number in `f64`.
    #[doc(hidden)]
    #[inline(always)]
    fn wide(self) -> f64 {
        WithDType::to_f64(self)
    }

    #[doc(hidden)]
    fn reduce(threads: usize, vectors: &[(&[Self], Slices)], reduction: Reduction) -> Vec<f64>;

    #[doc(hidden)]
    fn change(threads: usize, vectors: &mut [(&mut [Self], Slices)], change: Change<'_>);

    #[doc(hidden)]
    fn combine(
        threads: usize,
        onto: &mut [&mut [Self]],
        from: &[&[Self]],
        combination: Combination,
    );
}

/// Functions of a type, compiled with this crate: those of a generic one would be compiled with its callers.
macro_rules! element {
    ($float:ty) => {
        impl Element for $float {
            fn reduce(
                threads: usize,
                vectors: &[(&[Self], Slices)],
                reduction: Reduction,
            ) -> Vec<f64> {
                passes::reduce(threads, vectors, reduction)
            }

            fn change(threads: usize, vectors: &mut [(&mut [Self], Slices)], change: Change<'_>) {
                passes::change(threads, vectors, change);
            }

            fn combine(
                threads: usize,
                onto: &mut [&mut [Self]],
                from: &[&[Self]],
                combination: Combination,
            ) {
                passes::combine(threads, onto, from, combination);
            }
        }
    };
}

element!(f32);
element!(f64);

/// Reduces each slice of each vector; results in order. Sums are computed in `f64`.
///
/// On at most `threads` threads.
pub fn reduce<T: Element>(
    threads: usize,
    vectors: &[(&[T], Slices)],
    reduction: Reduction,
) -> Vec<f64> {
    T::reduce(threads, vectors, reduction)
}

/// Changes all vectors in place, on at most `threads` threads.
///
/// # Panics
///
/// If [`Change::ScaleSlices`] has fewer factors than there are slices.
pub fn change<T: Element>(threads: usize, vectors: &mut [(&mut [T], Slices)], change: Change<'_>) {
    T::change(threads, vectors, change);
}

/// Combines each vector of `onto` with that of `from` at the same place, on at most `threads` threads.
///
/// # Panics
///
/// If there are not as many vectors, or two have different lengths.
pub fn combine<T: Element>(
    threads: usize,
    onto: &mut [&mut [T]],
    from: &[&[T]],
    combination: Combination,
) {
    T::combine(threads, onto, from, combination);
}
