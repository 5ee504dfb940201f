//! Own kernels for CUDA tensors, where composing candle's operations is slow.
//!
//! Their sources are in `host/ops/cuda/*.cu`, one file a family, each with a head that says how it is parallel and what memory it
//! reads and writes. A kernel takes `f32`, and `bf16` where its family says so, and accumulates in `f32`; for other types, and for
//! operations without a kernel, the composed path is taken; with `SCONCE_OPS=composed` it always is.
//!
//! **Parts**
//! - `compilation`: the families' texts, compiled when first needed, for the device at hand, and loaded into it.
//! - `launch`: launches kernels, on candle's stream.
//! - [`collections`]: passes over all parameters, gradients or the like; [`optimizers`]: steps of all parameters in one launch; `chunks`: how
//!   both divide them among blocks; `pieces`: copies and sums of gradients that ranks exchange.
//! - `operations`: those of models, forward and backward, and sums for metrics.
//!
//! **Same bits.** A kernel's sums are in an order that shapes alone decide, without atomics, so that a device's results are the same
//! each time.

mod chunks;
pub mod collections;
mod compilation;
mod launch;
mod operations;
pub mod optimizers;
pub(crate) mod pieces;
#[cfg(test)]
mod tests;

pub(crate) use operations::{
    activation, attention, batch_norm, convolution, cross_entropy, embedding, measures, pooling,
    random, row_norm, softmax,
};

use crate::choice::has_kernels as takes;
