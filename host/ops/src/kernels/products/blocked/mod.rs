//! Multiplication of large `f32` matrices by tiles of packed blocks.
//!
//! A tile (`tile`) reads both matrices at every step along the depth. Where their rows lie kilobytes apart, lines that
//! are read together compete for the same few places of the L1 cache. So both are copied first, into the order in which
//! tiles read them: the left one into *strips*, as high as tiles, and the right one into *panels*, as wide (Goto and van
//! de Geijn, 2008).
//!
//! **Parts.** `pack`: copies into strips and panels. `pairs`: those in pairs of elements rounded to `bf16` ([`Terms`]). `in_place`: products of few rows,
//! which need no strips. This file: how a product is divided.
//!
//! **Flow.** 1. The smaller matrix is packed by all threads, as all of them need all of it. 2. The target is divided along
//! the larger one into units, which threads take as they are free: a unit packs its own part of the larger matrix,
//! [`block_depth`] steps at a time, into memory that stays in the L2 cache, and multiplies; meanwhile, what it packs next is
//! prefetched. Each element of both matrices is packed once.
//!
//! **Bits.** Each element of a product is the sum over the depth in its order, rounded once at each step, and begins with
//! the row that is added, if any. So neither how it is divided, nor the number of threads, nor AVX2 or AVX-512 changes a
//! bit.

mod in_place;
mod pack;
mod pairs;

use std::mem::MaybeUninit;
use std::ops::Range;

pub(crate) use in_place::{multiply_in_place, pays_in_place};
pub(crate) use pack::PackedRight;
use pack::{PackedLeft, pack_panels, pack_strips, strips_size};

use super::prefetch::Prefetch;
use super::tile::{Terms, multiply_strips, tile_columns, tile_rows};
use crate::kernels::memory::fill::SharedSlice;
use crate::kernels::parallel::region;
use crate::kernels::{Factors, Matrix, TargetMatrix, UninitBuffer, has_tiles};

/// Number of elements of a block's panel, 16 KiB: it stays in the L1 cache beside a strip.
const IN_CACHE: usize = 4096;

/// Words along the depth for which a block of both matrices is packed.
fn block_depth() -> usize {
    IN_CACHE / tile_columns()
}

/// Smallest number of rows, of columns and of steps along the depth for which packing pays.
const WORTHWHILE: usize = 16;

/// Largest number of rows or columns of a unit: few enough that threads finish at about the same time.
const LARGEST_UNIT: usize = 64;

/// Number of units that each thread has, where there are enough rows or columns.
const UNITS: usize = 8;

/// A multiplication by packed blocks.
#[derive(Clone, Copy)]
pub(crate) struct Blocked<'a> {
    left: Matrix<'a, f32>,
    right: Matrix<'a, f32>,
    /// The row that each row of the product begins with.
    row: Option<&'a [f32]>,
    /// Whether negative elements of the product are replaced by 0.
    rectifies: bool,
    /// Whether the product is added to what its target holds.
    adds: bool,
    terms: Terms,
}

impl<'a> Blocked<'a> {
    /// Whether a product of (rows, depth) by (depth, columns) can be computed by packed blocks, and is worth it.
    pub(crate) fn pays(rows: usize, depth: usize, columns: usize) -> bool {
        has_tiles() && rows.min(columns).min(depth) >= WORTHWHILE
    }

    /// A product of matrices each of which is row-major or column-major.
    pub(crate) fn new(factors: Factors<'a, f32>) -> Blocked<'a> {
        let Factors { left, right, row } = factors;
        let fits = left.columns == right.rows
            && left.reach() <= left.numbers.len()
            && right.reach() <= right.numbers.len()
            && row.is_none_or(|row| row.len() == right.columns);
        assert!(fits, "the matrices of a product don't fit");
        Blocked {
            left,
            right,
            row,
            rectifies: false,
            adds: false,
            terms: Terms::Singles,
        }
    }

    /// The product of factors in these terms.
    pub(crate) fn in_terms(self, terms: Terms) -> Blocked<'a> {
        Blocked { terms, ..self }
    }

    /// The product with negative elements replaced by 0, if wanted; −0 and NaN stay.
    pub(crate) fn rectified(self, rectifies: bool) -> Blocked<'a> {
        Blocked { rectifies, ..self }
    }

    /// Whether units are rows of the target: where the right matrix is the smaller one.
    fn is_by_rows(&self) -> bool {
        self.right.columns <= self.left.rows
    }

    /// Rows or columns of a unit.
    fn unit(&self, threads: usize) -> usize {
        let (length, step) = if self.is_by_rows() {
            (self.left.rows, tile_rows())
        } else {
            (self.right.columns, tile_columns())
        };
        even_unit(threads, length, step)
    }

    /// Number of units for this number of threads.
    fn units(&self, threads: usize) -> usize {
        let length = if self.is_by_rows() {
            self.left.rows
        } else {
            self.right.columns
        };
        length.div_ceil(self.unit(threads))
    }
}

/// Length of a unit of this many rows or columns, a multiple of `step`.
fn even_unit(threads: usize, length: usize, step: usize) -> usize {
    let most = LARGEST_UNIT.next_multiple_of(step);
    let even = length.div_ceil(threads * UNITS).next_multiple_of(step);
    even.clamp(step, most)
}

/// Scratch memory of a thread for its own blocks.
#[derive(Default)]
pub(crate) struct BlockScratch {
    strips: Vec<f32>,
    panels: Vec<MaybeUninit<f32>>,
}

impl BlockScratch {
    /// At least this many elements for strips, of any value.
    fn strips(&mut self, size: usize) -> &mut [f32] {
        if self.strips.len() < size {
            self.strips.resize(size, 0.0);
        }
        &mut self.strips[..size]
    }

    /// This many uninitialised elements for panels.
    fn panels(&mut self, size: usize) -> &mut [MaybeUninit<f32>] {
        if self.panels.len() < size {
            self.panels.resize_with(size, MaybeUninit::uninit);
        }
        &mut self.panels[..size]
    }
}

/// The matrix of a product that all units need.
enum Common {
    Right(PackedRight),
    Left(PackedLeft),
}

/// Blocks of words of a unit along the depth, each with the rows or columns and the words of the block that is packed after it.
///
/// After a unit's last block that is the first one of the unit that follows, which is empty after the last unit.
fn blocks(
    unit: &Range<usize>,
    units_end: usize,
    words: usize,
) -> impl Iterator<Item = (Range<usize>, (Range<usize>, Range<usize>))> {
    let step = block_depth();
    let block = move |first: usize| first..words.min(first + step);
    let following = unit.end..units_end.min(unit.end + unit.len());
    let unit = unit.clone();
    (0..words).step_by(step).map(move |first| {
        let next = if first + step < words {
            (unit.clone(), block(first + step))
        } else {
            (following.clone(), block(0))
        };
        (block(first), next)
    })
}

/// Number of tiles of a target.
fn tiles(target: &TargetMatrix<'_, f32>) -> usize {
    target.rows.div_ceil(tile_rows()) * target.columns.div_ceil(tile_columns())
}

/// Multiplies some rows of a left matrix by a packed right one, [`block_depth`] steps at a time.
fn multiply_rows(
    mut target: TargetMatrix<'_, f32>,
    left: Matrix<'_, f32>,
    rows: &Range<usize>,
    right: &PackedRight,
    scratch: &mut BlockScratch,
) {
    let (rectifies, terms) = (target.rectifies, right.terms);
    let words = terms.words(left.columns);
    for (depth, (next, next_depth)) in blocks(rows, left.rows, words) {
        target.rectifies = rectifies && depth.end == words;
        let strips = scratch.strips(strips_size(rows.len(), depth.len()));
        pack_strips(left, rows, (&depth, terms), strips);
        let next_depth = terms.elements(&next_depth, left.columns);
        let mut ahead = Prefetch::of(left, &next, &next_depth, tiles(&target));
        let right = right.from(depth.start);
        let depth = (depth.len(), terms);
        multiply_strips(&target, depth, strips, right, &mut ahead);
        target.adds = true;
    }
}

/// Multiplies a packed left matrix by some columns of a right one, [`block_depth`] steps at a time.
fn multiply_columns(
    mut target: TargetMatrix<'_, f32>,
    left: &PackedLeft,
    right: Matrix<'_, f32>,
    columns: &Range<usize>,
    scratch: &mut BlockScratch,
) {
    let (rectifies, terms) = (target.rectifies, left.terms);
    let words = terms.words(right.rows);
    for (depth, (next, next_depth)) in blocks(columns, right.columns, words) {
        target.rectifies = rectifies && depth.end == words;
        let panel = depth.len() * tile_columns();
        let panels = scratch.panels(columns.len().div_ceil(tile_columns()) * panel);
        let panels = pack_panels(right, (&depth, terms), columns, panels);
        let next_depth = terms.elements(&next_depth, right.rows);
        let mut ahead = Prefetch::of(right, &next_depth, &next, tiles(&target));
        let left = left.from(depth.start);
        let depth = (depth.len(), terms);
        multiply_strips(&target, depth, left, (panels, panel), &mut ahead);
        target.adds = true;
    }
}

/// Multiplies by packed blocks, all products in one parallel region, and returns those that are wanted.
///
/// Products with units of rows and those with units of columns can be mixed.
pub(crate) fn multiply_blocked<const N: usize>(
    threads: usize,
    products: [Option<Blocked<'_>>; N],
) -> [Option<Vec<f32>>; N] {
    let mut results = products
        .each_ref()
        .map(|product| product.as_ref().map(Blocked::size).map(UninitBuffer::new));
    let targets = results.each_mut().map(|result| {
        let slots = result.as_mut().map(UninitBuffer::slots);
        SharedSlice::new(slots.unwrap_or_default())
    });
    // SAFETY: each target is the memory of its product, and none adds to what it holds.
    #[expect(unsafe_code, reason = "targets are as large as products")]
    unsafe {
        multiply_into(threads, products, &targets);
    }
    // SAFETY: the units of each product are all of its rows or columns.
    #[expect(unsafe_code, reason = "they are written")]
    let written = |result: UninitBuffer<f32>| unsafe { result.written() };
    results.map(|result| result.map(written))
}

/// Adds a product without a row to `sum`, (rows, columns), whose elements' terms are followed by those of the product: where they are
/// those of another product, the bits are those of one product of both depths.
pub(crate) fn add_blocked(threads: usize, product: Blocked<'_>, sum: &mut [f32]) {
    assert!(
        sum.len() == product.size() && product.row.is_none(),
        "a product's target is not of its size, or its rows begin with something else"
    );
    let product = Blocked {
        adds: true,
        ..product
    };
    // SAFETY: the target is of the product's size, and has been written.
    #[expect(unsafe_code, reason = "the target is as large as the product")]
    unsafe {
        multiply_into(threads, [Some(product)], &[SharedSlice::written(sum)]);
    }
}

/// Multiplies by packed blocks, all products in one parallel region, and writes every element of their targets.
///
/// # Safety
///
/// Each target has an element for each row and column of its product, which has been written if the product is added to it.
#[expect(unsafe_code, reason = "the caller knows the targets")]
unsafe fn multiply_into<const N: usize>(
    threads: usize,
    products: [Option<Blocked<'_>>; N],
    targets: &[SharedSlice<'_, MaybeUninit<f32>>; N],
) {
    let commons = products.each_ref().map(|product| {
        product.as_ref().map(|product| {
            if product.is_by_rows() {
                Common::Right(PackedRight::new(threads, product.right, product.terms))
            } else {
                Common::Left(PackedLeft::new(threads, product.left, product.terms))
            }
        })
    });
    let counts = products.map(|product| product.map_or(0, |product| product.units(threads)));
    region::distribute(
        threads,
        counts.iter().sum(),
        BlockScratch::default,
        |scratch, mut unit| {
            let all = products.iter().zip(&commons).zip(targets).zip(counts);
            for (((product, common), target), count) in all {
                if unit >= count {
                    unit -= count;
                    continue;
                }
                if let (Some(product), Some(common)) = (product, common) {
                    // SAFETY: units are run once each, `unit` is less than their number, and by this function's contract
                    // the target has an element for each row and column of its product, written if it is added to.
                    unsafe {
                        product.multiply_unit(unit, threads, common, target, scratch);
                    }
                }
                break;
            }
        },
    );
}

impl Blocked<'_> {
    /// Number of elements of the product.
    fn size(&self) -> usize {
        self.left.rows * self.right.columns
    }

    /// Computes a unit of the product.
    ///
    /// # Safety
    ///
    /// Nothing else accesses the elements of this unit during the call. They have been written if the product is added to them.
    #[expect(unsafe_code, reason = "units are disjoint")]
    unsafe fn multiply_unit(
        &self,
        unit: usize,
        threads: usize,
        common: &Common,
        target: &SharedSlice<'_, MaybeUninit<f32>>,
        scratch: &mut BlockScratch,
    ) {
        let size = self.unit(threads);
        let columns = self.right.columns;
        match common {
            Common::Right(right) => {
                let rows = unit * size..self.left.rows.min((unit + 1) * size);
                let dims = (rows.len(), columns);
                // SAFETY: the rows are those of this unit, and by this function's contract nothing else accesses them,
                // and they have been written where they are added to.
                let mut target = unsafe {
                    let target = TargetMatrix::shared(target, rows.start * columns, dims, columns);
                    if self.adds { target.added() } else { target }
                };
                target.rectifies = self.rectifies;
                multiply_rows(target.with_row(self.row), self.left, &rows, right, scratch);
            }
            Common::Left(left) => {
                let own = unit * size..columns.min((unit + 1) * size);
                let dims = (self.left.rows, own.len());
                // SAFETY: the columns are those of this unit, and by this function's contract nothing else accesses
                // them, and they have been written where they are added to.
                let mut target = unsafe {
                    let target = TargetMatrix::shared(target, own.start, dims, columns);
                    if self.adds { target.added() } else { target }
                };
                target.rectifies = self.rectifies;
                let row = self.row.map(|row| &row[own.clone()]);
                multiply_columns(target.with_row(row), left, self.right, &own, scratch);
            }
        }
    }
}

/// Multiplies some rows by a packed right matrix into uninitialised memory of the product's size, with a row added to
/// each of its rows, if any; then negative elements are replaced by 0, if wanted.
pub(crate) fn multiply_packed_uninit<'a>(
    slots: &'a mut [MaybeUninit<f32>],
    left: Matrix<'_, f32>,
    rows: &Range<usize>,
    right: &PackedRight,
    (row, rectifies): (Option<&[f32]>, bool),
    scratch: &mut BlockScratch,
) -> &'a mut [f32] {
    let columns = right.columns();
    assert!(
        slots.len() == rows.len() * columns,
        "a product's target is not of its size"
    );
    let mut target = TargetMatrix::uninit(&mut *slots, rows.len(), columns).with_row(row);
    target.rectifies = rectifies;
    multiply_rows(target, left, rows, right, scratch);
    // SAFETY: the target is all of the memory, and tiles cover its rows and columns.
    #[expect(unsafe_code, reason = "they are written")]
    unsafe {
        crate::kernels::written(slots)
    }
}

#[cfg(test)]
mod tests;
