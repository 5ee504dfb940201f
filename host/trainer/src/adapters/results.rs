//! What a run with adapters leaves: the whole model, merged, and the adapters by themselves.

use std::path::Path;

use candle_core::Tensor;
use sconce_base::held_directory::HeldDirectory;
use serde_json::Value;

use super::peft::{self, PeftConfig};
use super::{AdapterError, merged};
use crate::checkpoint::Weights;
use crate::manifest::AdaptConfig;
use crate::parameters::Parameters;
use crate::weights::{self, NamedTensors};

/// Writes the results of a run with adapters: `weights.safetensors`, in which they are merged, and the directory `adapter` in
/// PEFT's form, of what was measured last. `base` is what the adapters were made for, as the manifest names it.
///
/// # Errors
///
/// If a file can't be written.
pub fn save_results(
    run: &HeldDirectory,
    parameters: &Parameters,
    measured: Option<&Weights>,
    (config, base): (&AdaptConfig, Option<&Path>),
) -> Result<(), AdapterError> {
    let Some(adapters) = parameters.adapters() else {
        return Ok(weights::save_results(run, parameters, measured)?);
    };
    let own: NamedTensors<'_> = parameters.iter().map(|p| (p.name(), p.tensor())).collect();
    let of_set: Option<NamedTensors<'_>> = measured.map(|set| {
        let tensors = set.tensors.iter();
        tensors
            .map(|(name, tensor)| (name.as_str(), tensor))
            .collect()
    });
    let kept = of_set.as_ref().unwrap_or(&own);
    peft::write(run, parameters, kept, &settings(config, base))?;
    let own = merged(adapters, &own)?;
    let of_set = of_set.map(|set| merged(adapters, &set)).transpose()?;
    let set = measured
        .map(|weights| weights.set.as_str())
        .zip(of_set.as_deref());
    let set = set.map(|(name, tensors)| (name, named(tensors)));
    Ok(weights::save_results_of(run, named(&own), set)?)
}

fn named(tensors: &[(String, Tensor)]) -> NamedTensors<'_> {
    let tensors = tensors.iter();
    tensors
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect()
}

/// What PEFT's configuration has of the manifest.
fn settings(config: &AdaptConfig, base: Option<&Path>) -> PeftConfig {
    let AdaptConfig::Lora {
        rank,
        alpha,
        dropout,
        rslora,
        dora,
        ..
    } = config;
    PeftConfig {
        peft_type: "LORA".to_owned(),
        task_type: None,
        base_model_name_or_path: base.map(|base| base.display().to_string()),
        r: *rank,
        lora_alpha: *alpha,
        use_rslora: *rslora,
        use_dora: *dora,
        lora_dropout: *dropout,
        fan_in_fan_out: false,
        target_modules: Value::Null,
        modules_to_save: None,
        bias: "none".to_owned(),
        init_lora_weights: Value::Bool(true),
        inference_mode: true,
    }
}
