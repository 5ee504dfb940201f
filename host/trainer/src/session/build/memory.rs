//! Whether a model fits into memory, found from its shapes before anything is allocated.

use candle_core::{DType, Device};
use sconce_base::memory_limit::{available_memory, memory_limit};
use sconce_ops::device;
use sconce_plugin_api::Phase;

use super::adapt::adapter_plan;
use super::model_failure::{cant_be_built, inputs_of_views};
use crate::data::{Splits, ViewGroup};
use crate::device_facts::memory_size;
use crate::diagnostic::Diagnostic;
use crate::manifest::Manifest;
use crate::nn::{LayerError, MemoryBudget, ModelError};
use crate::parameters::Parameters;
use crate::session::StartFailure;
use crate::session::device::open_device;
use crate::task::split_of;

/// What a model is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelUse {
    /// Its parameters alone are needed.
    Weights,
    /// Parameters have gradients and the optimizer's state, and batches are as large as the manifest says.
    Training,
}

/// Checks that the manifest's model fits into the memory that the process may use: its parameters, and with them the output
/// of each layer. Returns a warning if other programs have too much of it now. Does nothing where the manifest describes no
/// model or no data, or the system doesn't tell.
///
/// # Errors
///
/// If it doesn't, or can't be built, with the layer.
pub fn check_memory(
    manifest: &Manifest,
    data: Option<&Splits>,
    purpose: ModelUse,
) -> Result<Option<Diagnostic>, StartFailure> {
    let (Some(model), Some(data)) = (&manifest.model, data) else {
        return Ok(None);
    };
    let device = open_device(manifest)?;
    let Some(available) = Available::on(&device) else {
        return Ok(None);
    };
    let mut warning = None;
    for (index, (views, inputs)) in inputs_of_views(data).into_iter().enumerate() {
        let budget = match purpose {
            ModelUse::Weights => MemoryBudget::new(available.bytes, 1, 1),
            ModelUse::Training => {
                let copies = 2 + manifest.optimizer.state_size();
                MemoryBudget::new(available.bytes, copies, most_rows(manifest, data, &views))
            }
        };
        let mut parameters = Parameters::counting(DType::F32, budget);
        if let Some(plan) = adapter_plan(manifest)? {
            parameters.adapt(plan);
        }
        let built = model.build(&mut parameters, &inputs, data.train.targets());
        match built.err() {
            Some(error) if is_too_large(&error) => {
                let mut failure = cant_be_built(manifest, model, &inputs, &error);
                let hint = format!("what there is: {}", available.source);
                let problems = failure.diagnostics.into_iter();
                failure.diagnostics = problems.map(|problem| problem.hint(&hint)).collect();
                return Err(failure);
            }
            Some(error) if index == 0 => {
                return Err(cant_be_built(manifest, model, &inputs, &error));
            }
            None if index == 0 => warning = scarce(&parameters, &device),
            // That views of a further size don't fit is said where the model is built for them all.
            _ => {}
        }
    }
    Ok(warning)
}

/// Whether a model can't be built for want of memory.
fn is_too_large(error: &ModelError) -> bool {
    matches!(error, ModelError::Layer(LayerError { is_too_large, .. }) if *is_too_large)
}

/// The warning that parameters need more memory than is free now.
fn scarce(parameters: &Parameters, device: &Device) -> Option<Diagnostic> {
    let taken = parameters.budget()?.taken();
    let free = available_memory().filter(|_| device.is_cpu())?;
    let needed = u64::try_from(taken).unwrap_or(u64::MAX);
    (needed > free).then(|| {
        Diagnostic::warning(format!(
            "parameters, gradients and the optimizer's state need {}, and {} of this machine's memory are free now",
            memory_size(needed),
            memory_size(free)
        ))
    })
}

/// Memory that there is for a model.
struct Available {
    bytes: u64,
    /// What limits it, for messages.
    source: &'static str,
}

impl Available {
    fn on(device: &Device) -> Option<Available> {
        if device.is_cpu() {
            let limit = memory_limit()?;
            return Some(Available {
                bytes: limit.bytes,
                source: limit.source,
            });
        }
        Some(Available {
            bytes: device::facts(device)?.memory_total,
            source: "the GPU's memory",
        })
    }
}

/// Number of rows in the largest batch: of these views in training, or of samples in evaluations.
fn most_rows(manifest: &Manifest, data: &Splits, views: &ViewGroup) -> u64 {
    let train = &manifest.train;
    let evaluation = train.eval_batch_size.unwrap_or(train.batch_size);
    let batch = |(phase, size, views): (Phase, usize, usize)| {
        let samples = split_of(data, phase)?.len();
        Some(size.min(samples).saturating_mul(views) as u64)
    };
    let batches = [
        (Phase::Train, train.batch_size, views.count),
        (Phase::Val, evaluation, 1),
        (Phase::Test, evaluation, 1),
    ];
    batches.into_iter().filter_map(batch).max().unwrap_or(1)
}
