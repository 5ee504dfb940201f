//! Models that can't be built for the data.

use sconce_ops::device::says_out_of_memory;

use crate::data::{Splits, ViewGroup};
use crate::diagnostic::Diagnostic;
use crate::manifest::Manifest;
use crate::mentioned::mentioned;
use crate::nn::{ModelConfig, ModelError, Signal};
use crate::session::StartFailure;

/// What to do if a GPU's memory is exhausted before anything is computed.
const PARAMETERS_ALONE: &str = "the parameters alone exceed the GPU's free memory: `nvidia-smi` shows what else uses it, and \
     `sconce summary` how many parameters each layer has";

/// What a model's first layer gets of the data.
pub(super) fn inputs_of(data: &Splits) -> Signal {
    data.train.signal()
}

/// What it gets of the data's training samples: all of them, or their views of each size.
pub(super) fn inputs_of_views(data: &Splits) -> Vec<(ViewGroup, Signal)> {
    let groups = data.train.view_groups().into_iter().enumerate();
    groups
        .map(|(index, group)| {
            let inputs = match index {
                0 => inputs_of(data),
                _ => Signal::new(&*group.shape, data.train.inputs()),
            };
            (group, inputs)
        })
        .collect()
}

/// The error message for a model that can't be built, at its place in the manifest.
pub(super) fn cant_be_built(
    manifest: &Manifest,
    model: &ModelConfig,
    inputs: &Signal,
    error: &ModelError,
) -> StartFailure {
    let path = match error {
        ModelError::Layer(error) if model.has_layers_of_its_own() => {
            format!("model.{}", error.path)
        }
        _ => mentioned(&manifest.resolved(), "model", &error.to_string()),
    };
    let problem = Diagnostic::new(error.to_string()).at(manifest.place(&path));
    let hint = if says_out_of_memory(&error.to_string()) {
        Some(PARAMETERS_ALONE.to_owned())
    } else {
        model.meant_for(inputs)
    };
    StartFailure::usage(vec![match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }])
}
