//! Models that are made of layers.
//!
//! - `model`: a model with its layers and their costs
//! - `sequence`: layers one after the other; `fusion`: which of them run as one operation; `branches`: lists side by side
//! - `recomputed`: blocks whose activations are recomputed in the backward pass

mod branches;
#[cfg(test)]
mod frozen_tests;
mod fusion;
#[cfg(test)]
mod last_position_tests;
#[cfg(test)]
mod left_head_tests;
mod model;
mod recomputed;
mod sequence;

pub(crate) use branches::Branches;
pub use model::Network;
pub(crate) use recomputed::Recomputed;
pub use sequence::{Residual, Sequence};
