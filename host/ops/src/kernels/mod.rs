//! Building blocks of operations: vectorised loops, parallel regions and matrix multiplication.
//!
//! Nothing here knows about tensors. Results depend on the number of threads requested, where sums are partitioned, but
//! not on timing. AVX2 and AVX-512 give the same bits, except in `gemm`, which chooses its own instructions.
//!
//! **Parts**
//! - `level`: the instruction set, detected at run time; the macro [`vectorised!`](crate::vectorised) compiles a loop
//!   for each.
//! - `math`: float types, fast exponentials and normal distributions, sums and maxima in a fixed order.
//! - `threads`: how many threads are requested, usable and started.
//! - [`region`]: parallel regions: how work is partitioned and scheduled; `inside` keeps them from nesting.
//! - `pool`: the worker threads; `bench` leaves out workers that cost more than they save, and `courtesy` sets their
//!   scheduling policy.
//! - `fresh`: uninitialised memory that is written before it is read.
//! - [`fill`]: memory whose parts are written by the threads of a region.
//! - `elements`: loops over all elements, in parallel.
//! - `matrix`, `product`: matrix views, and their multiplication by the crate `gemm`; `outer`: products of depth 1.
//! - `tile`: matrix multiplication and transposition in registers, without packing.
//! - `blocked`: multiplication of large `f32` matrices by tiles of packed blocks.
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

mod bench;
mod blocked;
mod courtesy;
mod elements;
pub mod fill;
mod finite;
mod fresh;
mod inside;
mod level;
pub(crate) mod math;
mod matrix;
mod outer;
mod pool;
mod product;
pub mod region;
mod rows;
pub mod strokes;
pub mod threads;
mod tile;

pub(crate) use blocked::{
    BlockScratch, Blocked, PackedRight, multiply_blocked, multiply_in_place,
    multiply_packed_uninit, pays_in_place,
};
pub(crate) use elements::{map, map_leaving};
pub(crate) use finite::all_finite;
pub(crate) use fresh::{Cursor, UninitBuffer, write_all, write_rows, written, zeros};
pub use level::{InstructionLevel, VARIABLE, best, level, limit_level};
pub(crate) use matrix::{Matrix, TargetMatrix};
pub(crate) use product::{Factors, Job, multiply, multiply_all_uninit, multiply_uninit};
pub(crate) use rows::add_rows;
pub(crate) use tile::{
    Depth, LeftMatrix, PANEL, Right, has_tiles, multiply_tiles, transpose, transpose_at,
    transpose_uninit, transpose_whole,
};
