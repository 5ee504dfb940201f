//! What a model's pass is given of the run around it: hooks' tensors, through the bridge.

use std::borrow::Cow;

use candle_core::{Result, Tensor};
use sconce_hooks::bridge::BridgeState;
use sconce_nn::PassSurroundings;

/// The hooks around a pass.
#[derive(Clone, Copy)]
pub(in crate::run) struct Surroundings<'run>(pub(in crate::run) &'run BridgeState<'run>);

impl PassSurroundings for Surroundings<'_> {
    fn published(&self, name: &str) -> Result<Option<Tensor>> {
        self.0.published(name)
    }

    fn show(&self, name: Cow<'static, str>, tensor: &Tensor) {
        self.0.show(name, tensor);
    }
}
