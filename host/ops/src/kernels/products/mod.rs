//! Matrix multiplication.
//!
//! - `matrix`: views of matrices; `gemm`: their multiplication by the crate of that name; `outer`: products of depth 1
//! - `tile`: multiplication and transposition in registers, without packing
//! - `few_rows`: multiplication of a few rows, as fast as the matrix is read
//! - `words`: pairs of elements rounded to `bf16`, of which both matrices may consist
//! - `prefetch`: cache lines of what is packed next
//! - `blocked`: multiplication of large `f32` matrices by tiles of packed blocks

mod blocked;
mod few_rows;
mod gemm;
mod matrix;
mod outer;
mod prefetch;
mod tile;
mod words;

pub(crate) use blocked::{
    BlockScratch, Blocked, PackedRight, add_blocked, multiply_blocked, multiply_in_place,
    multiply_packed_uninit, pays_in_place,
};
pub(crate) use few_rows::{FEW_ROWS, StreamedMatrix, multiply_few_rows};
pub(crate) use gemm::{Factors, Job, multiply, multiply_all_uninit, multiply_uninit};
pub(crate) use matrix::{Matrix, TargetMatrix};
pub(crate) use tile::{
    Depth, LeftMatrix, PANEL, Right, Terms, has_tiles, multiply_tiles, strips, transpose,
    transpose_at, transpose_uninit, transpose_whole,
};
pub(crate) use words::{across, along, rounded};
