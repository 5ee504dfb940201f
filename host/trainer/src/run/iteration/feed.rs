//! Where batches come from: their order, and their way to the device.

use std::time::Instant;

use candle_core::Device;
use sconce_lifecycle::Position;

use super::staging::{IdleUploaders, Staging, StagingError};
use crate::data::order::{Order, Sampler};
use crate::data::{Batch, Dataset, Loader};
use crate::nn::ops::device;
use crate::run::timing::profile::PassTimes;
use crate::run::{RunError, TrainingPlan};

/// What passes over the data share.
#[derive(Default)]
pub(in crate::run) struct Feed {
    /// What draws the orders of epochs, from the first on.
    sampler: Option<Sampler>,
    /// What copies batches to a device, between passes.
    uploaders: IdleUploaders,
}

impl Feed {
    /// The order of the training samples in this epoch.
    pub(in crate::run) fn training_order(
        &mut self,
        data: &dyn Dataset,
        plan: &TrainingPlan,
        position: &Position,
    ) -> Result<Order, RunError> {
        let sampler = match self.sampler.take() {
            Some(sampler) => sampler,
            None => Sampler::new(plan.sampling, data)
                .map_err(|error| RunError::data(position, error))?,
        };
        let order = sampler.order(plan.seed, position.epoch);
        self.sampler = Some(sampler);
        Ok(order)
    }

    /// The batches of a loader, on this device.
    pub(in crate::run) fn stage(
        &self,
        loader: Loader,
        device: &Device,
        position: &Position,
    ) -> Result<Staging, RunError> {
        let staged = Staging::new(loader, device, &self.uploaders);
        staged.map_err(|error| RunError::task("preparing copies to the device", position, error))
    }
}

/// The next batch of a pass, waiting until it is ready; `None` at the end.
pub(in crate::run) fn load_batch(
    batches: &mut Staging,
    times: &mut PassTimes,
    position: &Position,
) -> Result<Option<Batch>, RunError> {
    let (start, waited) = (Instant::now(), device::waited());
    let batch = batches.next_batch();
    // Not a fault of the data: the GPU lags.
    let waited = device::waited().saturating_sub(waited);
    times.data += start.elapsed().saturating_sub(waited);
    batch.map_err(|error| match error {
        StagingError::Data(error) => RunError::data(position, error),
        StagingError::Copy(error) => {
            RunError::task("copying a batch to the device", position, error)
        }
    })
}
