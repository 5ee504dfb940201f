//! Fused CPU operations on candle tensors, with correct gradients where candle's are wrong or missing.
//!
//! `docs/candle-gradients.md` lists those cases; other operations replace several passes over memory by one. All of
//! them work in `f32` and `f64` and are gradient-checked.
//!
//! **Parts**
//! - `operations`: each a custom op of candle's, with its own backward pass.
//! - `options`, `statistics`: what operations are given beside tensors, on any device.
//! - `choice`: how an operation is computed, by which kernels or composed, and in which type.
//! - `composed`: every operation composed of candle's own, for devices that have no kernels of ours.
//! - `cuda`: own kernels for CUDA tensors (feature `cuda`). [`kernels`]: parallel regions, vectorised loops and matrix
//!   multiplication, without tensors.
//! - `autograd`: records operations ([`record`]) and runs the backward pass over them ([`backward`]); constants ([`hold`]), blocks that
//!   are computed again, [`gradient_check`].
//! - `storage`: conversions between tensor storage and slices.
//! - [`vectors`]: passes over all parameters, gradients or the like at once. [`measures`]: what metrics of logits are made of.
//! - [`pieces`]: copies and sums of the gradients that ranks exchange.
//! - [`random`]: keyed streams of random numbers; [`counted`]: random words in any order.
//! - [`device`]: the CPU or a GPU, opened and asked.
//!
//! **Flow.** 1. An operation makes its inputs contiguous and passes them to `autograd::tape::apply1` to `apply3`, which detach
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

mod autograd;
mod choice;
mod composed;
pub mod counted;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod device;
pub mod kernels;
pub mod measures;
mod operations;
mod options;
pub mod pieces;
pub mod random;
mod statistics;
mod storage;
pub mod vectors;

pub use autograd::constants::{HeldConstants, hold, is_constant, pruned};
pub use autograd::gradient_check;
pub use autograd::recompute::{largest_recomputed, recomputed};
pub use autograd::tape::{
    Recording, apply1, backward, backward_giving, keeps, record, recorded, recorded_bytes, reshape,
};
pub use choice::autocast::{Autocast, autocast, autocast_dtype};
pub use choice::rounded_outputs::rounding_outputs;
pub use choice::rounded_products::{
    RoundedProducts, rounded_products, rounded_products_are_fast, rounded_products_kind,
    rounds_products,
};
pub use choice::{
    VARIABLE as OPERATIONS_VARIABLE, are_composed, is_requested as are_composed_on_cpu,
};
pub use composed::cast::cast;
pub use operations::attention::{
    AttentionInputs, attention, attention_with, rotated, rounds_attention,
};
pub use operations::batch_norm::group::group_norm;
pub use operations::batch_norm::{
    batch_norm, batch_norm_across, batch_norm_of_batch, batch_norm_then, update_running,
};
pub use operations::conv::transposed::{conv_transpose2d, transposed_size};
pub use operations::conv::unfold::unfold2d;
pub use operations::conv::{conv2d, conv2d_then, largest_convolution};
pub use operations::elementwise::add_relu::add_relu;
pub use operations::elementwise::factors::{channels_times, columns_times};
pub use operations::elementwise::masked::{dropout_factors, masked};
pub use operations::elementwise::multiply::multiply;
pub use operations::elementwise::{
    activated, add, gelu, gelu_tanh, quick_gelu, relu, sigmoid, silu, tanh,
};
pub use operations::embedding::{add_positions, embedding, embedding_with};
pub use operations::finite::is_finite;
pub use operations::linear::{linear, linear_then, linear_with, rounds_linear};
pub use operations::losses::cross_entropy::{cross_entropy, cross_entropy_on_device};
pub use operations::losses::given::given_loss;
pub use operations::losses::linear_cross_entropy::{
    LinearParameters, is_in_parts, linear_cross_entropy,
};
pub use operations::losses::squared_error::mean_squared_error;
pub use operations::pool::pool2d;
pub use operations::pool::upsample::upsample2d;
pub use operations::rearranging::{concatenated, permuted, position_at, prepended};
pub use operations::recurrent::recurrent;
pub use operations::row_norm::{layer_norm, rms_norm};
pub use operations::sequences::{mean_positions, transpose};
pub use operations::softmax::softmax;
pub use options::{
    After, AttentionDropout, AttentionTerms, CrossEntropyTerms, Function, KeyIntervals, PoolKind,
    RecurrentKind, RotaryTable, Rotation, TokenPositions, Upsampling, VisibleKeys, WeightOrder,
    Window, Windows,
};
pub use statistics::{
    AcrossRanks, ChannelStatistics, RunningUpdate, SharedBatch, StatisticsSource,
};
pub use storage::{device_address, host_copy};

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
