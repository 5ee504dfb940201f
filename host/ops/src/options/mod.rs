//! What operations are asked to do: what the kernels of all devices, and operations that are composed, are given beside tensors.
//!
//! Plain data without a device, below everything that computes.
//!
//! - `activation`: activation functions; `after`: what follows a convolution; `attention`: what an attention computes;
//! - `window`, `pooling`: windows of convolutions and of poolings; `upsampling`: elements between those of a smaller image;
//! - `recurrent`: kinds of recurrent layers;
//! - `weight_order`: order of a linear layer's weight;
//! - `cross_entropy`: what a cross entropy weighs;
//! - `vectors`, `pieces`: passes over vectors, and over pieces of gradients.

mod activation;
mod after;
mod attention;
mod cross_entropy;
mod pieces;
mod pooling;
mod recurrent;
mod upsampling;
mod vectors;
mod weight_order;
mod window;

pub use activation::Function;
pub use after::After;
pub use attention::{
    AttentionDropout, AttentionTerms, KeyIntervals, RotaryTable, Rotation, TokenPositions,
    VisibleKeys,
};
pub(crate) use attention::{ROW_STEP, dropped_word};
pub use cross_entropy::CrossEntropyTerms;
pub use pieces::{AddedRange, Addition, Part};
pub use pooling::{PoolKind, Windows};
pub use recurrent::RecurrentKind;
pub(crate) use upsampling::Tap;
pub use upsampling::Upsampling;
pub use vectors::{Change, Combination, Reduction, Slices};
pub use weight_order::WeightOrder;
pub(crate) use window::UnfoldSizes;
pub use window::Window;
