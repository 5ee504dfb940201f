//! The task and the optimizer that a manifest describes.

use candle_core::{DType, Device};

use super::Failure;
use crate::data::Splits;
use crate::diagnostic::Diagnostic;
use crate::manifest::Manifest;
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
    let inputs = data.train.sample_shape();
    let classes = data.train.targets().outputs();
    let model = manifest
        .model
        .build(&mut parameters, inputs, classes)
        .map_err(|error| {
            let place = manifest.place("model");
            Failure::usage(vec![Diagnostic::new(error.to_string()).at(place)])
        })?;
    Ok(Classification::new(model, parameters, data))
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
