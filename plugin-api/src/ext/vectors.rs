//! `sconce.vectors/1`: sums, changes and combinations of whole collections of tensors, done by the host.
//!
//! A hook that looks at or changes every parameter or gradient is bound by memory. The host does such a pass where the
//! elements are, with the processor's best instructions and on all its threads.

mod lent;

pub use lent::LentVectors;

use super::extension;
use crate::abi::Refusal;

/// Tensors of one collection, in the order of their indices. Frozen.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct VectorsAbi {
    /// `count` indices as in [`TensorsTable`](super::TensorsTable); null for all slots that are not empty.
    pub indices: *const usize,
    /// Number of indices; ignored if `indices` is null.
    pub count: usize,
    /// Number of the [`Collection`](super::Collection).
    pub collection: u32,
    /// The dimension whose slices are treated one by one, or [`VectorsAbi::WHOLE`]. A tensor without this dimension is one
    /// slice.
    pub axis: u32,
}

impl VectorsAbi {
    /// As `axis`: every tensor is one slice.
    pub const WHOLE: u32 = u32::MAX;

    /// The indices; `None` for all slots that are not empty.
    ///
    /// # Errors
    ///
    /// If there can't be as many.
    ///
    /// # Safety
    ///
    /// If `indices` is not null, `count` of them are borrowed for `'a`.
    pub unsafe fn chosen<'a>(&self) -> Result<Option<&'a [usize]>, Refusal> {
        if self.indices.is_null() {
            return Ok(None);
        }
        // SAFETY: guaranteed by the caller.
        match unsafe { super::lent(self.indices, self.count) } {
            None => Err(Refusal::invalid("there can't be as many indices")),
            chosen => Ok(chosen),
        }
    }
}

/// Passes over whole collections, done by the host where the elements are; the sets of reductions, changes and combinations are open.
///
/// All arguments are borrowed for the call. The status is `NOT_FOUND` for an index whose slot is empty, `UNSUPPORTED` for an
/// unknown number or a type of elements that the operation doesn't know, `NOT_LEGAL_HERE` where tensors can't be written to,
/// and `INVALID` if two tensors that are written to, or one of them and one that is read, share elements. With any status but
/// OK nothing has been changed.
#[extension("sconce.vectors/1", local)]
#[expect(
    clippy::missing_safety_doc,
    reason = "said of all: what the vectors point to is readable during the call"
)]
pub trait Vectors {
    /// Reduces each slice to a number: the [`Reduction`] of this number; `number` is its parameter.
    ///
    /// Writes one result per slice, in order, and their count. If there is no room for all, nothing is computed, and the
    /// status is OK.
    unsafe fn reduce(
        &self,
        reduction: u32,
        number: f64,
        vectors: &VectorsAbi,
        results: &mut [f64],
    ) -> Result<usize, Refusal>;

    /// Changes the tensors in place: the [`Change`] of this number, with its numbers.
    unsafe fn change(
        &self,
        change: u32,
        vectors: &VectorsAbi,
        numbers: &[f64],
    ) -> Result<(), Refusal>;

    /// Combines each tensor of `onto` with that of `from` at the same place: the [`Combination`] of this number, with its
    /// weight. As many tensors, of the same shapes and types.
    unsafe fn combine(
        &self,
        combination: u32,
        weight: f64,
        onto: &VectorsAbi,
        from: &VectorsAbi,
    ) -> Result<(), Refusal>;
}

/// What a slice is reduced to. Sums are computed in `f64`, and do not depend on the number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reduction {
    /// Number 0: Σ |x|ᵖ; p, the parameter, is finite and above 0.
    Powers(f64),
    /// Number 1: the largest |x|; NaN if any x is, 0 without elements.
    Largest,
    /// Number 2: how many elements are infinite or NaN.
    NotFinite,
    /// Number 3: how many elements are NaN.
    NotANumber,
}

impl Reduction {
    /// The number and the parameter that cross the boundary.
    pub const fn numbers(self) -> (u32, f64) {
        match self {
            Reduction::Powers(order) => (0, order),
            Reduction::Largest => (1, 0.0),
            Reduction::NotFinite => (2, 0.0),
            Reduction::NotANumber => (3, 0.0),
        }
    }

    /// The reduction with this number; `None` if this version of the API doesn't know it, or the parameter is out of
    /// range.
    pub fn from_numbers(reduction: u32, number: f64) -> Option<Reduction> {
        match reduction {
            0 if number.is_finite() && number > 0.0 => Some(Reduction::Powers(number)),
            1 => Some(Reduction::Largest),
            2 => Some(Reduction::NotFinite),
            3 => Some(Reduction::NotANumber),
            _ => None,
        }
    }
}

/// How every element is changed. `f32` and `f64` alone.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change<'a> {
    /// Number 0: x · factor, computed in `f64`.
    Scale(f64),
    /// Number 1: x · the factor of its slice, computed in `f64`; one factor for each slice, in order.
    ScaleSlices(&'a [f64]),
    /// Number 2: at least the first number and at most the second, which is not smaller; NaN stays.
    Clamp(f64, f64),
    /// Number 3: this number.
    Fill(f64),
}

impl<'a> Change<'a> {
    /// Calls `send` with the numbers that cross the boundary.
    pub fn send<R>(self, send: impl FnOnce(u32, &[f64]) -> R) -> R {
        match self {
            Change::Scale(factor) => send(0, &[factor]),
            Change::ScaleSlices(factors) => send(1, factors),
            Change::Clamp(lower, upper) => send(2, &[lower, upper]),
            Change::Fill(number) => send(3, &[number]),
        }
    }

    /// The change with this number; `None` if this version of the API doesn't know it, or the numbers don't fit it.
    pub fn from_numbers(change: u32, numbers: &'a [f64]) -> Option<Change<'a>> {
        match (change, numbers) {
            (0, &[factor]) => Some(Change::Scale(factor)),
            (1, factors) => Some(Change::ScaleSlices(factors)),
            (2, &[lower, upper]) if lower <= upper => Some(Change::Clamp(lower, upper)),
            (3, &[number]) => Some(Change::Fill(number)),
            _ => None,
        }
    }
}

/// How an element x is combined with that of another tensor, y, in the elements' type; a weight is rounded to it.
///
/// `f32` and `f64`; [`Combination::Copy`] with any type.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Combination {
    /// Number 0: x + weight · y.
    Add(f64),
    /// Number 1: x + weight · (y − x), which moves x towards y.
    Blend(f64),
    /// Number 2: x · y.
    Multiply,
    /// Number 3: y.
    Copy,
}

impl Combination {
    /// The number and the weight that cross the boundary.
    pub const fn numbers(self) -> (u32, f64) {
        match self {
            Combination::Add(weight) => (0, weight),
            Combination::Blend(weight) => (1, weight),
            Combination::Multiply => (2, 0.0),
            Combination::Copy => (3, 0.0),
        }
    }

    /// The combination with this number; `None` if this version of the API doesn't know it.
    pub const fn from_numbers(combination: u32, weight: f64) -> Option<Combination> {
        match combination {
            0 => Some(Combination::Add(weight)),
            1 => Some(Combination::Blend(weight)),
            2 => Some(Combination::Multiply),
            3 => Some(Combination::Copy),
            _ => None,
        }
    }
}
