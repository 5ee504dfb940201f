//! Reductions of a chunk of a vector, in sixteen lanes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Element;
use crate::options::{Reduction, Slices};
use crate::vectorised;

impl Reduction {
    /// The reduction of some elements.
    pub(super) fn of<T: Element>(self, elements: &[T]) -> f64 {
        let lanes = match self {
            Reduction::Powers(order) if is_square(order) => squares(elements),
            Reduction::Powers(order) => powers(elements, order),
            Reduction::Largest => largest(elements),
            Reduction::NotFinite => not_finite(elements),
            Reduction::NotANumber => not_elements(elements),
        };
        self.joined(lanes.into_iter())
    }

    /// The reduction of parts, given that of each.
    pub(super) fn joined(self, parts: impl Iterator<Item = f64>) -> f64 {
        match self {
            Reduction::Largest => parts.fold(0.0, larger),
            _ => parts.fold(0.0, |sum, part| sum + part),
        }
    }

    /// The reductions of all slices, whose runs are short, in one pass.
    pub(super) fn of_interleaved<T: Element>(self, elements: &[T], slices: Slices) -> Vec<f64> {
        let sums = vec![0.0; slices.count];
        match self {
            Reduction::Powers(order) if is_square(order) => {
                slices.fold(elements, sums, |sum, x| sum + x * x)
            }
            Reduction::Powers(order) => {
                slices.fold(elements, sums, |sum, x| sum + x.abs().powf(order))
            }
            Reduction::Largest => slices.fold(elements, sums, |most, x| larger(most, x.abs())),
            Reduction::NotFinite => {
                slices.fold(elements, sums, |count, x| count + one_if(!x.is_finite()))
            }
            Reduction::NotANumber => {
                slices.fold(elements, sums, |count, x| count + one_if(x.is_nan()))
            }
        }
    }
}

pub(super) fn is_square(order: f64) -> bool {
    (order - 2.0).abs() < f64::EPSILON
}

fn one_if(condition: bool) -> f64 {
    f64::from(u8::from(condition))
}

/// The larger of two, or NaN if one is.
#[inline(always)]
fn larger(one: f64, other: f64) -> f64 {
    if one.is_nan() || other.is_nan() {
        f64::NAN
    } else {
        one.max(other)
    }
}

const LANES: usize = 16;

/// Counts elements into lanes, so that loops are vectorised.
#[inline(always)]
fn in_lanes<T: Element>(elements: &[T], count: impl Fn(f64, f64) -> f64) -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = elements.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, number) in lanes.iter_mut().zip(chunk) {
            *lane = count(*lane, number.wide());
        }
    }
    for (lane, number) in lanes.iter_mut().zip(rest) {
        *lane = count(*lane, number.wide());
    }
    lanes
}

vectorised! {
    fn squares<T: Element>(elements: &[T]) -> [f64; LANES] {
        in_lanes(elements, |sum, x| sum + x * x)
    }
}

vectorised! {
    fn powers<T: Element>(elements: &[T], order: f64) -> [f64; LANES] {
        in_lanes(elements, |sum, x| sum + x.abs().powf(order))
    }
}

vectorised! {
    fn largest<T: Element>(elements: &[T]) -> [f64; LANES] {
        in_lanes(elements, |most, x| larger(most, x.abs()))
    }
}

vectorised! {
    fn not_elements<T: Element>(elements: &[T]) -> [f64; LANES] {
        counted(elements, |x| x.is_nan())
    }
}

vectorised! {
    fn not_finite<T: Element>(elements: &[T]) -> [f64; LANES] {
        // x · 0 is 0 for finite x, and NaN otherwise.
        counted(elements, |x| (*x * T::ZERO).is_nan())
    }
}

/// 1 or 0, without a branch.
#[inline(always)]
fn one<T: Element>(condition: bool) -> T {
    if condition { T::one() } else { T::ZERO }
}

/// Counts elements in their own width; a block's count is far below what `T` holds exactly.
#[inline(always)]
fn counted<T: Element>(elements: &[T], is_counted: impl Fn(&T) -> bool) -> [f64; LANES] {
    const BLOCK: usize = 1024 * LANES;
    let mut totals = [0.0; LANES];
    for block in elements.chunks(BLOCK) {
        let mut lanes = [T::ZERO; LANES];
        let (chunks, rest) = block.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, number) in lanes.iter_mut().zip(chunk) {
                *lane += one::<T>(is_counted(number));
            }
        }
        for (lane, number) in lanes.iter_mut().zip(rest) {
            *lane += one::<T>(is_counted(number));
        }
        for (total, lane) in totals.iter_mut().zip(lanes) {
            *total += lane.wide();
        }
    }
    totals
}

/// A result that a thread leaves for the caller.
#[derive(Default)]
pub(super) struct Total(AtomicU64);

impl Total {
    pub(super) fn set(&self, number: f64) {
        self.0.store(number.to_bits(), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}
