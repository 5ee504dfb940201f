//! Passes over several vectors at once, such as all parameters or all gradients: sums, changes and combinations.
//!
//! Each pass is one parallel region over chunks of [`CHUNK`] elements, so that vectors of all sizes share the threads.
//! Neither the number of threads nor the instruction set changes a bit: chunks have a fixed size, and their sums are
//! added in order.
//!
//! - `totals`: reductions of a chunk;
//! - `chunks`: how vectors are cut;
//! - `tensors`: the same passes over tensors on a device.

mod chunks;
mod tensors;
#[cfg(test)]
mod tests;
mod totals;

use candle_core::WithDType;

use crate::kernels::math::Number;
use crate::kernels::region;
use crate::vectorised;

pub use chunks::{CHUNK, Slices};
use chunks::{Cut, cut, cut_pairs};
pub use tensors::{change_tensors, combine_tensors, reduce_on_device, reduce_tensors};
pub use totals::Reduction;
use totals::Total;

/// A float type of the vectors: `f32` or `f64`.
#[expect(private_bounds, reason = "only this crate calls kernels")]
pub trait Element: Number {
    /// The number in `f64`.
    #[doc(hidden)]
    #[inline(always)]
    fn wide(self) -> f64 {
        WithDType::to_f64(self)
    }
}

impl Element for f32 {}
impl Element for f64 {}

/// Changes every element by itself.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// x · factor, computed in `f64`.
    Scale(f64),
    /// x · the factor of its slice, computed in `f64`; one factor for each slice of each vector, in order. A factor of
    /// 1 leaves its slice alone.
    ScaleSlices(&'a [f64]),
    /// x, but at least the first number and at most the second; NaN stays.
    Clamp(f64, f64),
    /// The number, whatever x was.
    Fill(f64),
}

/// Combines each element with that of another vector, in the elements' type.
#[derive(Clone, Copy, Debug)]
pub enum Combination {
    /// x + weight · y.
    Add(f64),
    /// x + weight · (y − x): moves x towards y.
    Blend(f64),
    /// x · y.
    Multiply,
    /// y.
    Copy,
}

/// Reduces each slice of each vector; results in order. Sums are computed in `f64`.
///
/// On at most `threads` threads.
pub fn reduce<T: Element>(
    threads: usize,
    vectors: &[(&[T], Slices)],
    reduction: Reduction,
) -> Vec<f64> {
    let (mut tasks, mut starts, mut count) = (Vec::new(), vec![0], 0);
    for (vector, (elements, slices)) in vectors.iter().enumerate() {
        let (parts, each) = match slices.cut() {
            Cut::Chunks => (elements.len().div_ceil(CHUNK).max(1), 1),
            Cut::Slices => (slices.count, 1),
            Cut::Interleaved => (1, slices.count),
        };
        for part in 0..parts {
            tasks.push((vector, part, count..count + each));
            count += each;
        }
        starts.push(count);
    }
    let totals: Vec<Total> = (0..count).map(|_| Total::default()).collect();
    region::distribute(
        threads,
        tasks.len(),
        || (),
        |(), index| {
            let (vector, part, place) = &tasks[index];
            let (elements, slices) = vectors[*vector];
            let totals = &totals[place.clone()];
            match slices.cut() {
                Cut::Chunks => {
                    let end = elements.len().min((part + 1) * CHUNK);
                    totals[0].set(reduction.of(&elements[part * CHUNK..end]));
                }
                Cut::Slices => {
                    let runs = slices.runs(elements, *part).map(|run| reduction.of(run));
                    totals[0].set(reduction.joined(runs));
                }
                Cut::Interleaved => {
                    let sums = reduction.of_interleaved(elements, slices);
                    totals
                        .iter()
                        .zip(sums)
                        .for_each(|(total, sum)| total.set(sum));
                }
            }
        },
    );
    let mut results = Vec::new();
    for ((_, slices), place) in vectors.iter().zip(starts.windows(2)) {
        let found = totals[place[0]..place[1]].iter().map(Total::get);
        if slices.cut() == Cut::Chunks {
            results.push(reduction.joined(found));
        } else {
            results.extend(found);
        }
    }
    results
}

/// Changes all vectors in place, on at most `threads` threads.
///
/// # Panics
///
/// If [`Change::ScaleSlices`] has fewer factors than there are slices.
pub fn change<T: Element>(threads: usize, vectors: &mut [(&mut [T], Slices)], change: Change<'_>) {
    let mut first = 0;
    let firsts: Vec<(usize, Slices)> = vectors
        .iter()
        .map(|(_, slices)| {
            let own = first;
            first += slices.count;
            (own, *slices)
        })
        .collect();
    let chunks = cut(vectors.iter_mut().map(|(elements, _)| &mut **elements));
    chunks.run(threads, |vector, start, elements| match change {
        Change::Scale(factor) => scale(elements, factor),
        Change::ScaleSlices(factors) => {
            let (first, slices) = firsts[vector];
            slices.for_each_run(start, elements, |slice, run| {
                let factor = factors[first + slice];
                if (factor - 1.0).abs() > 0.0 {
                    scale(run, factor);
                }
            });
        }
        Change::Clamp(lower, upper) => clamp(
            elements,
            <T as WithDType>::from_f64(lower),
            <T as WithDType>::from_f64(upper),
        ),
        Change::Fill(number) => elements.fill(<T as WithDType>::from_f64(number)),
    });
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
    let chunks = cut_pairs(onto, from);
    chunks.run(threads, |vector, start, elements| {
        let others = &from[vector][start..start + elements.len()];
        match combination {
            Combination::Add(weight) => {
                add(elements, others, <T as WithDType>::from_f64(weight));
            }
            Combination::Blend(weight) => {
                blend(elements, others, <T as WithDType>::from_f64(weight));
            }
            Combination::Multiply => multiply(elements, others),
            Combination::Copy => elements.copy_from_slice(others),
        }
    });
}

vectorised! {
    fn scale<T: Element>(elements: &mut [T], factor: f64) {
        for number in elements {
            *number = <T as WithDType>::from_f64(number.wide() * factor);
        }
    }
}

vectorised! {
    fn clamp<T: Element>(elements: &mut [T], lower: T, upper: T) {
        for number in elements {
            let x = *number;
            let x = if x < lower { lower } else { x };
            *number = if x > upper { upper } else { x };
        }
    }
}

// Products are rounded before they are added to, at every instruction set.

vectorised! {
    fn add<T: Element>(elements: &mut [T], others: &[T], weight: T) {
        for (number, other) in elements.iter_mut().zip(others) {
            *number += weight * *other;
        }
    }
}

vectorised! {
    fn blend<T: Element>(elements: &mut [T], others: &[T], weight: T) {
        for (number, other) in elements.iter_mut().zip(others) {
            *number += weight * (*other - *number);
        }
    }
}

vectorised! {
    fn multiply<T: Element>(elements: &mut [T], others: &[T]) {
        for (number, other) in elements.iter_mut().zip(others) {
            *number *= *other;
        }
    }
}
