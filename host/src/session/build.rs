//! The task and the optimizer that a manifest describes.

use candle_core::{DType, Device};

use super::Failure;
use crate::data::Splits;
use crate::diagnostic::Diagnostic;
use crate::manifest::Manifest;
use crate::nn::{ModelError, Signal};
use crate::optim::Optimizer;
use crate::parameters::Parameters;
use crate::task::Classification;

/// The manifest's model over its data.
///
/// # Errors
///
/// Where the model does not fit the data.
pub fn build_task(manifest: &Manifest, data: Splits) -> Result<Classification, Failure> {
    let mut parameters = Parameters::new(manifest.seed, DType::F32, &Device::Cpu);
    let inputs = Signal {
        shape: data.train.sample_shape().to_vec(),
        content: data.train.inputs(),
    };
    let model = manifest
        .model
        .build(&mut parameters, &inputs, data.train.targets())
        .map_err(|error| {
            let path = match &error {
                ModelError::Layer(error) if manifest.model.has_layers_of_its_own() => {
                    format!("model.{}", error.path)
                }
                _ => "model".to_owned(),
            };
            let place = manifest.place(&path);
            Failure::usage(vec![Diagnostic::new(error.to_string()).at(place)])
        })?;
    Ok(Classification::new(Box::new(model), parameters, data))
}

/// The manifest's optimizer.
///
/// # Errors
///
/// Where one of its numbers is out of range.
pub fn optimizer(
    manifest: &Manifest,
    parameters: &Parameters,
) -> Result<Box<dyn Optimizer>, Failure> {
    manifest.optimizer.build(parameters).map_err(|error| {
        let place = manifest.place("optimizer");
        Failure::usage(vec![Diagnostic::new(error.to_string()).at(place)])
    })
}
