//! The files of a checkpoint, and how their bytes are read.

use candle_core::safetensors::Load;
use candle_core::{Device, Tensor};
use safetensors::SafeTensors;
use serde::de::DeserializeOwned;

/// The model's parameters and buffers.
pub(super) const PARAMETERS: &str = "parameters.safetensors";
/// The training's own parameters and buffers, where others were measured.
pub(super) const TRAINED_FILE: &str = "trained.safetensors";
/// All other tensors.
pub(super) const TRAINING: &str = "training.safetensors";
/// What is neither tensor nor hook's state.
pub(super) const STATE: &str = "state.json";
/// The hooks and their states.
pub(super) const HOOKS: &str = "hooks.json";
/// The run's manifest.
pub(super) const MANIFEST: &str = "manifest.json";

/// The tensors of a safetensors file, in the order of their names.
pub(super) fn tensors(bytes: &[u8]) -> Result<Vec<(String, Tensor)>, String> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut tensors = Vec::with_capacity(file.len());
    for (name, view) in file.tensors() {
        let tensor = view.load(&Device::Cpu).map_err(|error| error.to_string())?;
        tensors.push((name, tensor));
    }
    tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(tensors)
}

pub(super) fn parsed<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}
