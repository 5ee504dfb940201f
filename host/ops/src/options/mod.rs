//! What operations are asked to do: what the kernels of all devices, and operations that are composed, are given beside tensors.
//!
//! Plain data without a device, below everything that computes.
//!
//! - `activation`: activation functions; `after`: what follows a convolution;
//! - `window`, `pooling`: windows of convolutions and of poolings;
//! - `cross_entropy`: what a cross entropy weighs;
//! - `vectors`, `pieces`: passes over vectors, and over pieces of gradients.

mod activation;
mod after;
mod cross_entropy;
mod pieces;
mod pooling;
mod vectors;
mod window;

pub use activation::Function;
pub use after::After;
pub use cross_entropy::CrossEntropyTerms;
pub use pieces::{AddedRange, Addition, Part};
pub use pooling::{PoolKind, Windows};
pub use vectors::{Change, Combination, Reduction, Slices};
pub(crate) use window::UnfoldSizes;
pub use window::Window;
