//! Own kernels for CUDA tensors, where composing candle's operations is slow.
//!
//! Their sources are in `host/ops/cuda/*.cu`, one file a family, each with a head that says how it is parallel and what memory it
//! reads and writes. A kernel takes `f32`, and `bf16` where its family says so, and accumulates in `f32`; for other types, and for
//! operations without a kernel, the composed path is taken; with `SCONCE_OPS=composed` it always is.
//!
//! **Parts**
//! - `sources`: the families and their texts; `compiler`: NVRTC, which compiles them when first needed, for the device at hand;
//!   `cache`: what it made, on disk.
//! - `modules`: families loaded into devices; `launch`: launches their kernels, on candle's stream.
//! - [`collections`]: passes over all parameters, gradients or the like; [`optimizers`]: steps of all parameters in one launch; `chunks`: how
//!   both divide them among blocks; `pieces`: copies and sums of gradients that ranks exchange.
//! - `attention`, `convolution`, `pooling`, `softmax`, `cross_entropy`, `batch_norm`, `row_norm`, `activation`, `embedding`, `random`:
//!   operations, forward and backward. `measures`: sums for metrics.
//!
//! **Same bits.** A kernel's sums are in an order that shapes alone decide, without atomics, so that a device's results are the same
//! each time.

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod batch_norm;
mod cache;
mod chunks;
pub mod collections;
mod compiler;
pub(crate) mod convolution;
pub(crate) mod cross_entropy;
pub(crate) mod embedding;
mod launch;
pub(crate) mod measures;
mod modules;
pub mod optimizers;
pub(crate) mod pieces;
pub(crate) mod pooling;
pub(crate) mod random;
pub(crate) mod row_norm;
pub(crate) mod softmax;
mod sources;
#[cfg(test)]
mod tests;

use crate::choice::has_kernels as takes;
