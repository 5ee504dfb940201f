//! What operations are made of: loops for the processor at hand, work shared among threads, matrix
//! products.
//!
//! Nothing here knows of tensors. Results depend on the number of threads where sums are shared out,
//! and on nothing else: neither on timing nor, but for matrix products, on the instructions used.
#![allow(
    clippy::inline_always,
    reason = "what loops call must become part of them for each set of instructions"
)]

mod bench;
mod courtesy;
mod finite;
mod fresh;
mod inside;
mod level;
pub(crate) mod math;
mod matrix;
mod pool;
mod product;
pub mod region;
mod rows;
pub mod strokes;
pub mod threads;
mod tile;

pub(crate) use finite::all_finite;
pub(crate) use fresh::{Fresh, written, zeros};
pub use level::{Level, VARIABLE, level};
pub(crate) use matrix::{Matrix, Target};
pub(crate) use product::{Job, multiply, multiply_all};
pub(crate) use rows::add_rows;
pub(crate) use tile::{
    Depth, Left, PANEL, Right, has_tiles, multiply_tiles, transpose, transpose_at, transpose_fresh,
};
