//! Matrix multiplication.
//!
//! - `matrix`: views of matrices; `gemm`: their multiplication by the crate of that name; `outer`: products of depth 1
//! - `tile`: multiplication and transposition in registers, without packing
//! - `blocked`: multiplication of large `f32` matrices by tiles of packed blocks

mod blocked;
mod gemm;
mod matrix;
mod outer;
mod tile;

pub(crate) use blocked::{
    BlockScratch, Blocked, PackedRight, multiply_blocked, multiply_in_place,
    multiply_packed_uninit, pays_in_place,
};
pub(crate) use gemm::{Factors, Job, multiply, multiply_all_uninit, multiply_uninit};
pub(crate) use matrix::{Matrix, TargetMatrix};
pub(crate) use tile::{
    Depth, LeftMatrix, PANEL, Right, has_tiles, multiply_tiles, transpose, transpose_at,
    transpose_uninit, transpose_whole,
};
