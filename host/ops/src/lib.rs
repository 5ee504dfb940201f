//! Fused CPU operations on candle tensors, with correct gradients where candle's are wrong or missing.
//!
//! `docs/candle-gradients.md` lists those cases; other operations replace several passes over memory by one. All of
//! them work in `f32` and `f64` and are gradient-checked.
//!
//! **Parts**
//! - Operations, each a candle custom op with its own backward pass: `linear`, `conv` (with `unfold`), `attention`,
//!   `softmax`, `cross_entropy`, `batch_norm`, `row_norm` (layer and RMS norm), `pool`, `embedding`, `sequences`,
//!   `squared_error`, `masked`, `elementwise`, `add_relu`.
//! - `options`, `statistics`: what operations are given beside tensors, on any device.
//! - `choice`: how an operation is computed, by which kernels or composed.
//! - `tape`: records operations ([`record`]) and runs the backward pass over them ([`backward`]).
//! - `composed`: every operation composed of candle's own, for devices that have no kernels of ours. `custom_gradient`: operations whose output and
//!   gradient are computed apart, on any device; `tables`: what was computed from sizes, kept on its device.
//! - `cuda`: own kernels for CUDA tensors (feature `cuda`).
//! - `autocast`: products in a narrower type than parameters; `cast`: tensors in that type, or in a wider one.
//! - `recompute`: blocks that are computed again in the backward pass.
//! - `aside`: parameter gradients that bypass candle's gradient store during that pass.
//! - `constants`: frozen parameters ([`hold`]), which operations see detached.
//! - `storage`: conversions between tensor storage and slices. `sum`: of two tensors, as gradients add up; `finite`: a check.
//! - [`kernels`]: parallel regions, vectorised loops and matrix multiplication, without tensors.
//! - [`vectors`]: passes over all parameters, gradients or the like at once.
//! - [`pieces`]: copies and sums of the gradients that ranks exchange.
//! - [`random`]: keyed streams of random numbers.
//! - [`device`]: the CPU or a GPU, opened and asked.
//! - [`gradient_check`]: gradients against finite differences.
//!
//! **Flow.** 1. An operation makes its inputs contiguous and passes them to `tape::apply1` to `apply3`, which detach
//! constant inputs, have candle run the op's `cpu_fwd`, and record it. 2. `cpu_fwd` takes slices from `storage` and
//! computes with [`kernels`]. 3. [`backward`] walks the tape in reverse, calls each op's `bwd` and adds up the
//! gradients. 4. Where candle's own operations come in between, candle's pass continues from the gradients found so
//! far. 5. The gradients set aside are added to the store that is returned, unless [`backward_giving`] has given them away
//! as soon as they were complete.
//!
//! **States.** A thread records from [`record`] until the [`Recording`] is dropped; [`backward`] empties the tape.
//! Without a recording, candle's pass does all the work. Tensors are held from [`hold`] until the [`HeldConstants`] is dropped.
#![allow(
    clippy::inline_always,
    reason = "what loops call must become part of them for each set of instructions"
)]

mod add_relu;
mod aside;
mod attention;
mod autocast;
mod batch_norm;
mod cast;
mod choice;
mod composed;
mod constants;
mod conv;
mod cross_entropy;
#[cfg(feature = "cuda")]
pub mod cuda;
mod custom_gradient;
pub mod device;
pub mod device_address;
mod elementwise;
mod embedding;
mod finite;
pub mod gradient_check;
pub mod host_copy;
pub mod kernels;
mod linear;
mod masked;
pub mod measures;
mod options;
pub mod pieces;
mod pool;
pub mod random;
mod recompute;
mod row_norm;
mod sequences;
mod softmax;
mod squared_error;
mod statistics;
mod storage;
mod sum;
mod tables;
mod tape;
mod unfold;
pub mod vectors;

pub use add_relu::add_relu;
pub use attention::attention;
pub use autocast::{Autocast, autocast, autocast_dtype};
pub use batch_norm::{
    batch_norm, batch_norm_across, batch_norm_of_batch, batch_norm_then, update_running,
};
pub use cast::cast;
pub use choice::{
    VARIABLE as OPERATIONS_VARIABLE, are_composed, is_requested as are_composed_on_cpu,
};
pub use constants::{HeldConstants, hold, is_constant, pruned};
pub use conv::{conv2d, conv2d_then, largest_convolution};
pub use cross_entropy::{cross_entropy, cross_entropy_on_device};
pub use elementwise::{add, gelu, relu, silu};
pub use embedding::{add_positions, embedding};
pub use finite::is_finite;
pub use linear::{linear, linear_then};
pub use masked::{dropout_factors, masked};
pub use options::{After, CrossEntropyTerms, Function, PoolKind, Window, Windows};
pub use pool::pool2d;
pub use recompute::{largest_recomputed, recomputed};
pub use row_norm::{layer_norm, rms_norm};
pub use sequences::{mean_positions, transpose};
pub use softmax::softmax;
pub use squared_error::mean_squared_error;
pub use statistics::{
    AcrossRanks, ChannelStatistics, RunningUpdate, SharedBatch, StatisticsSource,
};
pub use tape::{
    Recording, apply1, backward, backward_giving, keeps, record, recorded, recorded_bytes, reshape,
};
pub use unfold::unfold2d;

/// Reproducible standard normal values for tests.
///
/// With new values in each run, two elements of a pooling square would occasionally be so close that rounding decides
/// which is larger.
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
        &crate::device::for_tests(),
    )
}

/// The output on a device of an identity, for operations of tests.
#[cfg(all(test, feature = "cuda"))]
pub(crate) fn copied(
    storage: &candle_core::CudaStorage,
    layout: &candle_core::Layout,
) -> candle_core::Result<(candle_core::CudaStorage, candle_core::Shape)> {
    let copy = candle_core::backend::BackendStorage::try_clone(storage, layout)?;
    Ok((copy, layout.shape().clone()))
}

/// Runs the examples of the README as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
