//! Building blocks of operations: vectorised loops, parallel regions and matrix multiplication.
//!
//! Nothing here knows about tensors. Results depend on the number of threads requested, where sums are partitioned, but
//! not on timing. AVX2 and AVX-512 give the same bits, except in `gemm`, which chooses its own instructions.
//!
//! **Parts**
//! - `level`: the instruction set, detected at run time; the macro [`vectorised!`](crate::vectorised) compiles a loop
//!   for each.
//! - `math`: float types, fast exponentials and normal distributions, sums and maxima in a fixed order.
//! - `parallel`: parallel regions ([`region`]), and the threads that they run on ([`threads`]).
//! - `memory`: new memory that is written before it is read; in [`fill`] by the threads of a region.
//! - `products`: matrix views, and their multiplication by the crate `gemm` and by tiles in registers.
//! - `elements`: loops over all elements, in parallel.
//! - `prefetch`: what is read and written next comes into the cache while products are computed.
//! - `rows`, `finite`, [`strokes`]: sums of rows, the check for NaN and infinity, distances for drawing.
//!
//! **Flow.** 1. An operation asks `region::parts` how many threads the work is worth, and allocates its result as
//! `fill::UninitRows`. 2. [`fill::fill_parts`] cuts the work into chunks by a `Schedule`; `region::run` or `distribute`
//! hands them to the pool, which the first region starts. 3. Each chunk writes its own part of the result, with
//! `vectorised!` loops, `multiply` or `multiply_tiles`, and hands it back initialised. 4. When all chunks are done,
//! `fill_parts` returns the memory as a vector.
//!
//! **States.** The instruction set and the numbers of threads are fixed at their first use. A worker is spinning, in a
//! region, asleep or benched; `pool` documents the transitions.
#![allow(
    clippy::inline_always,
    reason = "what loops call must become part of them for each set of instructions"
)]

mod elements;
mod finite;
mod level;
pub(crate) mod math;
mod memory;
#[cfg(test)]
pub(crate) mod other_instructions;
mod parallel;
mod prefetch;
mod products;
mod rows;
pub mod strokes;

pub(crate) use elements::{converted, map, map_leaving};
pub(crate) use finite::all_finite;
pub use level::{InstructionLevel, VARIABLE, best, has_pairs, level, limit_level};
pub use memory::fill;
pub(crate) use memory::{Cursor, UninitBuffer, write_all, write_rows, written, zeros};
pub use parallel::{region, threads};
pub(crate) use prefetch::{Ahead, prefetch, prefetch_all};
pub(crate) use products::{
    BlockScratch, Blocked, Depth, FEW_ROWS, Factors, Job, LeftMatrix, Matrix, PANEL, PackedRight,
    Right, StreamedMatrix, TargetMatrix, Terms, across, add_blocked, along, has_tiles, multiply,
    multiply_all_uninit, multiply_blocked, multiply_few_rows, multiply_in_place,
    multiply_packed_uninit, multiply_tiles, multiply_uninit, pays_in_place, rounded, strips,
    transpose, transpose_at, transpose_uninit, transpose_whole,
};
pub(crate) use rows::add_rows;
