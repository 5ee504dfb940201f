//! Building a [`Network`](crate::Network) from a list of layers.
//!
//! - `builder`: names, shapes and errors; `build_layer`: the layers that contain no others
//! - `var_builder`: models written with `candle_nn`

mod build_layer;
mod builder;
mod var_builder;

pub use builder::{LayerError, build};
pub use var_builder::with_var_builder;
