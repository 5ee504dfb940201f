//! Operations with gradients of our own: where candle's are wrong, missing or made of many passes
//! over the data. `docs/candle-gradients.md` lists which of candle's those are.
//!
//! All of them work in `f32` and `f64` and are gradient-checked.
#![allow(
    clippy::inline_always,
    reason = "what loops call must become part of them for each set of instructions"
)]

mod aside;
mod attention;
mod batch_norm;
mod constants;
mod conv;
mod cross_entropy;
mod elementwise;
mod embedding;
pub mod gradient_check;
pub mod kernels;
mod linear;
mod pool;
pub mod random;
mod row_norm;
mod softmax;
mod storage;
mod tape;
mod unfold;

pub use attention::attention;
pub use batch_norm::{ChannelStatistics, batch_norm};
pub use constants::{Held, hold, is_constant, pruned};
pub use conv::{After, conv2d, conv2d_then};
pub use cross_entropy::{CrossEntropyTerms, cross_entropy};
pub use elementwise::{Function, add, gelu, relu, silu};
pub use embedding::{add_positions, embedding};
pub use linear::{linear, linear_then};
pub use pool::{PoolKind, Windows, pool2d};
pub use row_norm::{layer_norm, rms_norm};
pub use softmax::softmax;
pub use storage::is_finite;
pub use tape::{Recording, apply1, backward, record, recorded, reshape};
pub use unfold::{Window, unfold2d};

/// Numbers of the standard normal distribution for tests, always the same: with others in every run, once in a while
/// two of a square would be so close that rounding decides which is the larger.
#[cfg(test)]
pub(crate) fn normal_numbers(
    seed: u64,
    shape: impl Into<candle_core::Shape>,
) -> candle_core::Result<candle_core::Tensor> {
    let shape = shape.into();
    let mut stream = crate::random::stream(seed, "tests of operations", 0, 0);
    let numbers = (0..shape.elem_count()).map(|_| stream.normal() as f32);
    candle_core::Tensor::from_vec(
        numbers.collect::<Vec<_>>(),
        shape,
        &candle_core::Device::Cpu,
    )
}

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
