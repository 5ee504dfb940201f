//! Recomputes the running statistics of batch norms from training batches.

use sconce_lifecycle::Position;
use sconce_plugin_api::Phase;

use super::feed::{Feed, load_batch};
use crate::data::Loader;
use crate::nn::{Pass, PassPosition};
use crate::parameters::{Parameter, ParameterKind};
use crate::run::timing::profile::PassTimes;
use crate::run::{RunError, TrainingPlan, device_of};
use crate::task::Task;

/// Runs forward passes in training mode over the first `samples` samples of the next epoch, or over all.
/// Only the statistics change: random numbers in these passes are keyed by the counters, as everywhere, from `at` on.
/// The inner error says why there are none.
pub(in crate::run) fn recompute(
    samples: Option<u64>,
    mut at: PassPosition,
    feed: &mut Feed,
    task: &mut dyn Task,
    plan: &TrainingPlan,
    position: &Position,
    times: &mut PassTimes,
) -> Result<Result<(), String>, RunError> {
    let is_buffer = |entry: &Parameter| entry.kind() == ParameterKind::Buffer;
    if !task.parameters().iter().any(is_buffer) {
        return Ok(Err("the model keeps none (it has no buffers)".to_owned()));
    }
    let data = task.data(Phase::Train).ok_or(RunError::NoTrainingData)?;
    let count = samples.map_or(data.len(), |samples| data.len().min(samples as usize));
    let size = plan.batch_size;
    let batches = (0..count)
        .step_by(size)
        .map(|start| start..count.min(start + size))
        .collect();
    let order = feed.training_order(data.as_ref(), plan, position)?;
    let loader = Loader::new(data, order, batches, position.epoch, plan.preparation);
    let mut batches = feed.stage(loader, &device_of(task), position)?;
    let mut seen = 0;
    while let Some(batch) = load_batch(&mut batches, times, position)? {
        seen += batch.len();
        let weight = batch.len() as f64 / seen as f64;
        let mut pass = Pass::training().at(at).renewing(weight);
        let passed = task.forward(&batch, &mut pass);
        passed.map_err(|error| RunError::task("recomputing statistics", position, error))?;
        at.iteration += 1;
    }
    Ok(Ok(()))
}
