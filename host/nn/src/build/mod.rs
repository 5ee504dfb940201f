//! Building a [`Network`](crate::Network) from a list of layers.
//!
//! - `builder`: names and shapes along a list; `outputs`: what the data's targets need; `problem`: errors;
//!   `made`: what building a layer gives
//! - `blocks`: layers that contain others; `leaf`: those that don't, with `linear`, `convolutions`, `pooling`, `embeddings`,
//!   `build_attention`, `recurrent` and `rearranging` for groups of kinds
//! - `var_builder`: models written with `candle_nn`

mod blocks;
mod build_attention;
mod builder;
mod convolutions;
mod embeddings;
mod leaf;
mod linear;
mod made;
mod outputs;
mod pooling;
mod problem;
mod rearranging;
mod recurrent;
#[cfg(test)]
mod tests;
mod var_builder;

pub use builder::build;
#[cfg(test)]
pub(crate) use builder::untargeted;
pub use problem::LayerError;
pub use var_builder::with_var_builder;
