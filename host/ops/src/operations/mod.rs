//! Operations, each a custom op of candle's with its own backward pass.
//!
//! **Parts**
//! - `linear`, `conv`, `pool`, `attention`, `softmax`, `embedding`, `sequences`, `recurrent`: what layers compute.
//! - `batch_norm`, `row_norm` (layer and RMS norm). `elementwise`: activations, sums, products, masks. `losses`.
//! - `rearranging`: parts of tensors put together, taken out, and in another order.
//! - `finite`: a check, without a gradient.
//!
//! **Flow.** A function checks shapes, has the operation composed where no kernel computes it (`choice`), or else passes it to the tape.

pub(super) mod attention;
pub(super) mod batch_norm;
pub(super) mod conv;
pub(super) mod elementwise;
pub(super) mod embedding;
pub(super) mod finite;
pub(super) mod linear;
pub(super) mod losses;
pub(super) mod pool;
pub(super) mod rearranging;
pub(super) mod recurrent;
pub(super) mod row_norm;
pub(super) mod sequences;
pub(super) mod softmax;
