//! The files of a checkpoint, and how their bytes are read.

use candle_core::safetensors::Load;
use candle_core::{Device, Tensor};
use safetensors::SafeTensors;
use serde::de::DeserializeOwned;

/// File of the model's parameters and buffers.
pub(super) const PARAMETERS: &str = "parameters.safetensors";
/// File of the trained parameters and buffers, if others were measured.
pub(super) const TRAINED_FILE: &str = "trained.safetensors";
/// File of all other tensors.
pub(super) const TRAINING: &str = "training.safetensors";
/// File of everything that is neither a tensor nor a hook's state.
pub(super) const STATE: &str = "state.json";
/// File of the hooks and their states.
pub(super) const HOOKS: &str = "hooks.json";
/// File of the run's manifest.
pub(super) const MANIFEST: &str = "manifest.json";

/// Reads the tensors of a safetensors file, sorted by name.
pub(crate) fn tensors(bytes: &[u8]) -> Result<Vec<(String, Tensor)>, String> {
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
