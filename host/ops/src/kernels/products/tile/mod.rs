//! Small matrix multiplications in registers, without packing.
//!
//! The crate `gemm` would spend its time packing, since an operation has many such multiplications and its matrices are
//! already in a suitable layout. A tile of the target is kept in registers while both matrices are traversed: one
//! element of each row of the left one at a time, and whole registers of the right one. So the left one may have any
//! strides, while the right one has contiguous rows, in panels of [`PANEL`] columns. Only for `f32`, on processors with
//! AVX2 and FMA, or AVX-512; both give the same bits.

#[cfg(target_arch = "x86_64")]
mod registers;
mod transpose;

use std::ops::Range;

pub(crate) use transpose::{
    BEYOND, transpose, transpose_at, transpose_strip, transpose_uninit, transpose_whole,
};

#[cfg(target_arch = "x86_64")]
use registers::{Avx2, Avx512, EmulatedPairs, Multiplies, Pairs, Registers, Singles};

use super::prefetch::Prefetch;
use crate::kernels::TargetMatrix;
#[cfg(target_arch = "x86_64")]
use crate::kernels::{InstructionLevel, has_pairs, level};

/// Number of columns of a panel.
pub(crate) const PANEL: usize = 32;

/// What packed matrices consist of, in words of 32 bits along the depth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Terms {
    /// Elements.
    #[default]
    Singles,
    /// Two elements each, rounded to `bf16`; the last may have a zero in place of the second. Sums are added up in an order of their
    /// own: of each pair the second product comes first.
    Pairs,
}

impl Terms {
    /// Number of elements of a word.
    fn each(self) -> usize {
        match self {
            Terms::Singles => 1,
            Terms::Pairs => 2,
        }
    }

    /// Number of words of this many elements.
    pub(crate) fn words(self, elements: usize) -> usize {
        elements.div_ceil(self.each())
    }

    /// The elements of some words, of `all` elements.
    pub(crate) fn elements(self, words: &Range<usize>, all: usize) -> Range<usize> {
        let each = self.each();
        (words.start * each).min(all)..(words.end * each).min(all)
    }
}

/// Whether this processor supports tiled multiplication.
pub(crate) fn has_tiles() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        level() > InstructionLevel::Baseline
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// The inner dimension of a multiplication, as two nested loops over words.
#[derive(Clone, Copy)]
pub(crate) struct Depth {
    pub(crate) outer: usize,
    pub(crate) inner: usize,
    /// What both matrices consist of.
    pub(crate) terms: Terms,
}

impl Depth {
    /// A single loop over elements.
    pub(crate) fn new(count: usize) -> Depth {
        Depth::of(count, Terms::Singles)
    }

    /// A single loop over the words of this many elements.
    pub(crate) fn of(elements: usize, terms: Terms) -> Depth {
        Depth {
            outer: 1,
            inner: terms.words(elements),
            terms,
        }
    }

    /// Number of elements from the first to the last one of these strides, both included.
    fn reach(self, steps: (usize, usize)) -> usize {
        (self.outer - 1) * steps.0 + (self.inner - 1) * steps.1 + 1
    }
}

/// The left matrix: (rows, depth).
#[derive(Clone, Copy)]
pub(crate) struct LeftMatrix<'a> {
    pub(crate) numbers: &'a [f32],
    /// Stride from row to row.
    pub(crate) row: usize,
    /// Strides along the depth: of the outer loop and of the inner one.
    pub(crate) steps: (usize, usize),
}

/// The right matrix: (depth, columns), with contiguous rows inside a panel.
#[derive(Clone, Copy)]
pub(crate) struct Right<'a> {
    pub(crate) numbers: &'a [f32],
    /// Stride from panel to panel: [`PANEL`] where rows are contiguous across panels.
    pub(crate) panel: usize,
    /// Strides along the depth: of the outer loop and of the inner one.
    pub(crate) steps: (usize, usize),
}

/// left · right into a row-major target; panics unless [`has_tiles`].
pub(crate) fn multiply_tiles(
    target: &mut TargetMatrix<'_, f32>,
    depth: Depth,
    left: LeftMatrix<'_>,
    right: Right<'_>,
) {
    let (rows, columns) = (target.rows, target.columns);
    if rows == 0 || columns == 0 {
        return;
    }
    let panels = columns.div_ceil(PANEL);
    let widest = if panels > 1 { PANEL } else { columns };
    let last = columns - (panels - 1) * PANEL;
    let fits = depth.outer > 0
        && depth.inner > 0
        && target.column_step == 1
        && (rows - 1) * left.row + depth.reach(left.steps) <= left.numbers.len()
        && (panels - 1) * right.panel + depth.reach(right.steps) + last - 1 <= right.numbers.len()
        && panels.saturating_sub(2) * right.panel + depth.reach(right.steps) + widest - 1
            <= right.numbers.len();
    assert!(fits, "the matrices of a product in tiles don't fit");
    // A single long loop is split into blocks, each added to the ones before, so that a panel's lines stay in cache
    // while all rows use them.
    let step = if depth.outer == 1 { NEAR } else { depth.inner };
    for first in (0..depth.inner).step_by(step) {
        let inner = step.min(depth.inner - first);
        let product = Product {
            depth: Depth { inner, ..depth },
            left: LeftMatrix {
                numbers: &left.numbers[first * left.steps.1..],
                ..left
            },
            strips: None,
            right: Right {
                numbers: &right.numbers[first * right.steps.1..],
                ..right
            },
            wide: PANEL,
            target,
            adds: target.adds || first > 0,
        };
        product.run(&mut Prefetch::default());
    }
}

/// As [`multiply_tiles`], with both matrices packed: the left one into [`strips`], the right one into panels of
/// [`tile_columns`]. The depth is a number of words, of which both consist.
///
/// A strip has (depth, rows) and a panel (depth, columns), both without elements between them; `panel` is the stride from
/// panel to panel. Some of what comes next is prefetched before each tile.
pub(crate) fn multiply_strips(
    target: &TargetMatrix<'_, f32>,
    (depth, terms): (usize, Terms),
    left: &[f32],
    right: (&[f32], usize),
    ahead: &mut Prefetch<'_>,
) {
    assert!(
        target.rows * depth <= left.len(),
        "the matrices of a product in strips don't fit"
    );
    let left = LeftMatrix {
        numbers: left,
        row: 1,
        steps: (0, 0),
    };
    multiply_by_panels(target, (depth, terms), (left, Some(depth)), right, ahead);
}

/// As [`multiply_strips`], with a left matrix whose rows are read in place, contiguous along the depth.
pub(crate) fn multiply_panels(
    target: &TargetMatrix<'_, f32>,
    depth: usize,
    left: LeftMatrix<'_>,
    right: (&[f32], usize),
    ahead: &mut Prefetch<'_>,
) {
    let fits = left.steps == (0, 1)
        && target.rows.saturating_sub(1) * left.row + depth <= left.numbers.len();
    assert!(fits, "the matrices of a product in panels don't fit");
    let depth = (depth, Terms::Singles);
    multiply_by_panels(target, depth, (left, None), right, ahead);
}

/// Multiplies a left matrix that fits the target, packed into strips or not, by panels.
fn multiply_by_panels(
    target: &TargetMatrix<'_, f32>,
    (depth, terms): (usize, Terms),
    (left, strips): (LeftMatrix<'_>, Option<usize>),
    (right, panel): (&[f32], usize),
    ahead: &mut Prefetch<'_>,
) {
    if target.rows == 0 || target.columns == 0 {
        return;
    }
    let wide = tile_columns();
    let fits = depth > 0
        && target.column_step == 1
        && (target.columns.div_ceil(wide) - 1) * panel + depth * wide <= right.len();
    assert!(fits, "the panels of a product don't fit");
    let product = Product {
        depth: Depth {
            outer: 1,
            inner: depth,
            terms,
        },
        left,
        strips,
        right: Right {
            numbers: right,
            panel,
            steps: (0, wide),
        },
        wide,
        target,
        adds: target.adds,
    };
    product.run(ahead);
}

/// Number of rows of the highest tile.
pub(crate) fn tile_rows() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        if level() == InstructionLevel::Avx512 {
            Avx512::ROWS
        } else {
            Avx2::ROWS
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    1
}

/// Number of columns of a tile, two registers: [`PANEL`] or half of it.
pub(crate) fn tile_columns() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        if level() == InstructionLevel::Avx512 {
            2 * Avx512::LANES
        } else {
            2 * Avx2::LANES
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    PANEL
}

/// Rows of each tile of a target of `rows` rows: at most [`tile_rows`], evenly divided.
pub(crate) fn strips(rows: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    evenly(rows, tile_rows())
}

/// Divides rows evenly into as few parts as have at most `most` each.
fn evenly(rows: usize, most: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    let count = rows.div_ceil(most);
    (0..count).map(move |index| index * rows / count..(index + 1) * rows / count)
}

/// Steps along the depth for which the lines of a panel stay in the L1 cache.
const NEAR: usize = 256;

#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "there are no tiles")
)]
struct Product<'a, 'b> {
    depth: Depth,
    left: LeftMatrix<'a>,
    /// Of a left matrix packed into strips: the number of elements of each of its rows.
    strips: Option<usize>,
    right: Right<'a>,
    /// Number of columns of a panel.
    wide: usize,
    target: &'a TargetMatrix<'b, f32>,
    /// Whether the product is added to the elements already in the target.
    adds: bool,
}

impl Product<'_, '_> {
    /// Computes the product; the calling function has checked that it fits its memory. Some of what is next is prefetched before each tile.
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "tiles take pointers")]
    fn run(&self, ahead: &mut Prefetch<'_>) {
        match (level(), self.depth.terms) {
            // SAFETY: `level` gives this only where the processor has AVX-512, and the calling function has
            // checked that all reads and writes lie in their memory.
            (InstructionLevel::Avx512, Terms::Singles) => unsafe {
                self.avx512::<Singles>(ahead);
            },
            // SAFETY: the processor also has the instruction for pairs; as above.
            (InstructionLevel::Avx512, Terms::Pairs) if has_pairs() => unsafe {
                self.avx512_pairs::<Pairs>(ahead);
            },
            // SAFETY: as above.
            (InstructionLevel::Avx512, Terms::Pairs) => unsafe {
                self.avx512::<EmulatedPairs>(ahead);
            },
            // SAFETY: `has_tiles` holds only where the processor has AVX2 and FMA, and the calling function has
            // checked that all reads and writes lie in their memory.
            (_, Terms::Singles) if has_tiles() => unsafe { self.avx2::<Singles>(ahead) },
            // SAFETY: as above.
            (_, Terms::Pairs) if has_tiles() => unsafe { self.avx2::<EmulatedPairs>(ahead) },
            _ => panic!("a product in tiles on a processor that has none"),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn run(&self, _ahead: &mut Prefetch<'_>) {
        panic!("a product in tiles on a processor that has none");
    }
}

/// Functions that compute tiles by the instructions of one kind of registers: all tiles of a product, and those of a panel two registers
/// wide and one register wide, each with the number of rows as a constant, up to the most that the registers have room for.
///
/// Functions of a panel are not inlined: in one function of all shapes, what the compiler does with each loop takes time for all of them. A
/// tile is inlined, as no closure: it would save and load everything each time.
#[cfg(target_arch = "x86_64")]
macro_rules! kernels_of_tiles {
    ($registers:ident, $features:literal, $all:ident, $two:ident [$($rows:literal)*], $one:ident [$($more:literal)*]) => {
        /// # Safety
        ///
        /// The processor has the instructions, and the product fits its memory.
        #[target_feature(enable = $features)]
        unsafe fn $all<T: Multiplies<$registers>>(&self, ahead: &mut Prefetch<'_>) {
            for panel in self.panels::<$registers>() {
                // SAFETY: by this function's contract; panels lie inside the product, and their columns fill as many registers.
                unsafe {
                    match panel.columns {
                        Columns::Two => self.$two::<T, true>(&panel, ahead),
                        Columns::PartOfTwo => self.$two::<T, false>(&panel, ahead),
                        Columns::One => self.$one::<T, true>(&panel, ahead),
                        Columns::PartOfOne => self.$one::<T, false>(&panel, ahead),
                    }
                }
            }
        }

        kernels_of_tiles!($registers, $features, $two, 2 [$($rows)*]);
        kernels_of_tiles!($registers, $features, $one, 1 [$($more)*]);
    };
    ($registers:ident, $features:literal, $name:ident, $wide:literal [$($rows:literal)*]) => {
        /// # Safety
        ///
        /// The processor has the instructions; the panel lies inside the product, which fits its memory; with `WHOLE` its columns fill
        /// the registers.
        #[inline(never)]
        #[target_feature(enable = $features)]
        unsafe fn $name<T: Multiplies<$registers>, const WHOLE: bool>(&self, panel: &Panel, ahead: &mut Prefetch<'_>) {
            for rows in evenly(self.target.rows, panel.rows) {
                ahead.some();
                let at = At { row: rows.start, ..panel.at };
                match rows.len() {
                    $(
                        // SAFETY: by this function's contract; the rows lie inside the product.
                        $rows => unsafe { self.tile::<$registers, T, $rows, $wide, WHOLE>(at) },
                    )*
                    _ => {}
                }
            }
        }
    };
}

/// Which of a tile's registers its columns fill.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Columns {
    Two,
    PartOfTwo,
    One,
    PartOfOne,
}

#[cfg(target_arch = "x86_64")]
impl Columns {
    /// Of registers of this many elements.
    fn of(columns: usize, lanes: usize) -> Columns {
        match columns {
            _ if columns >= 2 * lanes => Columns::Two,
            _ if columns > lanes => Columns::PartOfTwo,
            _ if columns == lanes => Columns::One,
            _ => Columns::PartOfOne,
        }
    }
}

/// The same value, with its origin hidden from the compiler.
///
/// Otherwise the compiler would compute each row's address from that of the row before: a dependency chain as long as
/// the multiplications.
#[cfg(target_arch = "x86_64")]
macro_rules! apart {
    ($number:expr) => {{
        let mut number: usize = $number;
        std::arch::asm!("/* {0} */", inout(reg) number, options(pure, nomem, nostack, preserves_flags));
        number
    }};
}

/// Has the loop behind it begin a line of the instruction cache.
///
/// The loop of AVX2's highest tile takes two lines, and three where it begins elsewhere: where the compiler happened to put it, whole models'
/// steps took up to 8 % longer on Zen 3 (`tests/by_turns.py`). Between this and the loop the compiler puts 17 to 32 bytes of its own, and it
/// begins loops at multiples of 16; another one may put more there, and then the loop is where chance has it.
#[cfg(target_arch = "x86_64")]
macro_rules! at_cache_line {
    () => {
        std::arch::asm!(
            ".p2align 6",
            ".nops 32",
            options(nomem, nostack, preserves_flags)
        )
    };
}

/// Position and width of a tile; `offset` is the offset of its first column in the right matrix.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct At {
    row: usize,
    column: usize,
    offset: usize,
    columns: usize,
}

/// The tiles of the same columns.
#[cfg(target_arch = "x86_64")]
struct Panel {
    /// The first of them.
    at: At,
    columns: Columns,
    /// Rows of the highest.
    rows: usize,
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "tiles take pointers")]
impl Product<'_, '_> {
    kernels_of_tiles!(Avx2, "avx2,fma", avx2, avx2_two [1 2 3 4 5 6], avx2_one [1 2 3 4 5 6 7 8 9 10 11 12]);
    kernels_of_tiles!(Avx512, "avx512f", avx512, avx512_two [1 2 3 4 5 6 7 8 9 10 11 12], avx512_one [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16]);
    // With the instruction for pairs of `bf16`.
    kernels_of_tiles!(Avx512, "avx512f,avx512bf16", avx512_pairs, avx512_pairs_two [1 2 3 4 5 6 7 8 9 10 11 12], avx512_pairs_one [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16]);

    /// Two registers of columns each, or one where those that are left fit in it.
    #[inline(always)]
    fn panels<R: Registers>(&self) -> impl Iterator<Item = Panel> {
        let mut column = 0;
        std::iter::from_fn(move || {
            let left = self.target.columns - column;
            if left == 0 {
                return None;
            }
            let at = At {
                row: 0,
                column,
                offset: column / self.wide * self.right.panel + column % self.wide,
                columns: left.min(2 * R::LANES),
            };
            column += at.columns;
            Some(Panel {
                at,
                columns: Columns::of(at.columns, R::LANES),
                rows: match self.strips {
                    None if at.columns <= R::LANES => R::NARROW_ROWS,
                    _ => R::ROWS,
                },
            })
        })
    }

    /// What uses instructions of `R` is inlined always, and in no closure or `array::from_fn`: these are functions without the instructions,
    /// in which each would be a call.
    ///
    /// # Safety
    ///
    /// The processor has the instructions of `R`; rows and columns lie inside the product, which fits its memory; with
    /// `WHOLE` the columns fill this number of registers.
    #[inline(always)]
    unsafe fn tile<R, T, const ROWS: usize, const WIDE: usize, const WHOLE: bool>(&self, at: At)
    where
        R: Registers,
        T: Multiplies<R>,
    {
        let (row_step, left_row) = (self.target.row_step, self.left.row);
        // SAFETY: by this function's contract the processor has the instructions, and all rows and columns lie in their
        // memory; masks leave out columns beyond the last. Pointers that go one step too far at the end are not read.
        unsafe {
            let mut masks = [R::mask(at.columns); WIDE];
            for (index, mask) in masks.iter_mut().enumerate() {
                *mask = R::mask(at.columns.saturating_sub(index * R::LANES));
            }
            let target = self.target.start.add(at.row * row_step + at.column);
            let mut sums = [[R::zero(); WIDE]; ROWS];
            if self.adds {
                for (row, sums) in sums.iter_mut().enumerate() {
                    *sums = load::<R, WIDE, WHOLE>(target.add(row * row_step), masks);
                }
            } else if let Some(begin) = self.target.begin {
                sums = [load::<R, WIDE, WHOLE>(begin.as_ptr().add(at.column), masks); ROWS];
            }
            let third = apart!(3 * left_row);
            let groups = [
                0,
                apart!(4 * left_row),
                apart!(8 * left_row),
                apart!(12 * left_row),
            ];
            // In strips, a tile's rows are side by side at each step along the depth.
            let (start, left_step) = match self.strips {
                Some(depth) => (at.row * depth, ROWS),
                None => (at.row * left_row, self.left.steps.1),
            };
            let mut left_outer = self.left.numbers.as_ptr().add(start);
            let mut right_outer = self.right.numbers.as_ptr().add(at.offset);
            for _ in 0..self.depth.outer {
                let (mut left, mut right) = (left_outer, right_outer);
                at_cache_line!();
                for _ in 0..self.depth.inner {
                    let words = load::<R, WIDE, WHOLE>(right, masks);
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let group = left.wrapping_add(groups[row / 4]);
                        let factor =
                            group.wrapping_add([0, left_row, 2 * left_row, third][row % 4]);
                        for (sum, words) in sums.iter_mut().zip(words) {
                            *sum = T::add(*sum, factor, words);
                        }
                    }
                    left = left.wrapping_add(left_step);
                    right = right.wrapping_add(self.right.steps.1);
                }
                left_outer = left_outer.wrapping_add(self.left.steps.0);
                right_outer = right_outer.wrapping_add(self.right.steps.0);
            }
            if self.target.rectifies {
                for sum in sums.as_flattened_mut() {
                    *sum = R::rectified(*sum);
                }
            }
            for (row, sums) in sums.into_iter().enumerate() {
                for (index, sum) in sums.into_iter().enumerate() {
                    let to = target.wrapping_add(row * row_step + index * R::LANES);
                    if WHOLE {
                        R::store(to, sum);
                    } else {
                        R::store_some(to, masks[index], sum);
                    }
                }
            }
        }
    }
}

/// Fills registers with numbers side by side, or with `WHOLE` unset those that the masks select.
///
/// # Safety
///
/// The processor has the instructions of `R`, and `from` is valid for these numbers.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[expect(unsafe_code, reason = "tiles take pointers")]
unsafe fn load<R: Registers, const WIDE: usize, const WHOLE: bool>(
    from: *const f32,
    masks: [R::Mask; WIDE],
) -> [R::Register; WIDE] {
    // SAFETY: by this function's contract.
    unsafe {
        let mut loaded = [R::zero(); WIDE];
        for (index, (loaded, mask)) in loaded.iter_mut().zip(masks).enumerate() {
            let from = from.wrapping_add(index * R::LANES);
            *loaded = if WHOLE {
                R::load(from)
            } else {
                R::load_some(from, mask)
            };
        }
        loaded
    }
}

#[cfg(test)]
mod tests;
