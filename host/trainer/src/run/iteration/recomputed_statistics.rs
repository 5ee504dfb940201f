//! Recomputes the running statistics of batch norms from training batches.

use sconce_plugin_api::Phase;

use crate::data::Loader;
use crate::nn::Pass;
use crate::parameters::{Parameter, ParameterKind};
use crate::run::failure::Leave;
use crate::run::{RunError, Trainer};

impl Trainer<'_> {
    /// Runs forward passes in training mode over the first `samples` samples of the next epoch, or over all.
    /// Only the statistics change: random numbers in these passes are keyed by the counters, as everywhere.
    pub(in crate::run) fn renew_statistics(
        &mut self,
        samples: Option<u64>,
        hook: &str,
    ) -> Result<(), Leave> {
        let is_buffer = |entry: &Parameter| entry.kind() == ParameterKind::Buffer;
        if !self.task.parameters().iter().any(is_buffer) {
            return self.blame(
                hook,
                "can't recompute statistics: the model keeps none (it has no buffers)",
            );
        }
        let data = self
            .task
            .data(Phase::Train)
            .ok_or(RunError::NoTrainingData)?;
        let count = samples.map_or(data.len(), |samples| data.len().min(samples as usize));
        let size = self.plan.batch_size;
        let batches = (0..count)
            .step_by(size)
            .map(|start| start..count.min(start + size))
            .collect();
        let epoch = self.position.epoch;
        let order = self.training_order(data.as_ref())?;
        let loader = Loader::new(data, order, batches, epoch, self.plan.preparation);
        let mut batches = self.staged(loader)?;
        let mut moment = self.moment();
        let mut seen = 0;
        while let Some(batch) = self.load_batch(&mut batches)? {
            seen += batch.len();
            let weight = batch.len() as f64 / seen as f64;
            let mut pass = Pass::training().at(moment).renewing(weight);
            let passed = self.task.forward(&batch, &mut pass);
            passed
                .map_err(|error| RunError::task("recomputing statistics", &self.position, error))?;
            moment.iteration += 1;
        }
        Ok(())
    }
}
