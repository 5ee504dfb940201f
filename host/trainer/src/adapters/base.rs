//! The fingerprint of a model that is held.

use safetensors::View;
use sconce_ops::device::copy_to_host;

use crate::checkpoint::bytes_of;
use crate::parameters::{ParameterRole, Parameters};

/// Fingerprint of all that is held: BLAKE3 of names, shapes and elements, in hexadecimal.
///
/// Of the values in memory, not of a file: the same weights in another file, or of another type there that changes none, are
/// the same base.
///
/// # Errors
///
/// If a device fails.
pub fn fingerprint(parameters: &Parameters) -> candle_core::Result<String> {
    let mut hasher = blake3::Hasher::new();
    let held = parameters
        .iter()
        .filter(|parameter| parameter.role() == ParameterRole::Base);
    for parameter in held {
        let tensor = copy_to_host(parameter.tensor())?;
        let shape = format!("{} {:?}\n", parameter.name(), tensor.dims());
        hasher.update(shape.as_bytes());
        hasher.update(&bytes_of(&tensor).data());
    }
    Ok(hasher.finalize().to_hex().to_string())
}
