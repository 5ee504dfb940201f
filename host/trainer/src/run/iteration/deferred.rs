//! Losses and metrics that are read from a device when somebody needs them, see [`DeferredMeasures`].
//!
//! A hook whose plugin doesn't know `sconce.loss/1` finds the loss in its view: it is read before such a hook is called
//! where there is a loss. Metrics and, for other hooks, losses are read by the functions that hooks call.

use std::time::{Duration, Instant};

use candle_core::{Device, Tensor};
use sconce_lifecycle::Position;
use sconce_plugin_api::{Phase, Point};

use super::update::LossWeight;
#[cfg(doc)]
use crate::bridge::DeferredMeasures;
use crate::bridge::{DeferredBatch, DeferredMeasure, ReadLoss};
use crate::data::Batch;
use crate::nn::ops::device;
use crate::run::device_of;
use crate::run::{RunError, Trainer};

/// Time between two losses that an observer, such as the live view, is shown.
const VIEW_EVERY: Duration = Duration::from_millis(100);

impl Trainer<'_> {
    /// Reads losses and metrics late on the CPU too, as on a device. For tests: nothing is gained there.
    pub fn measuring_deferred(mut self) -> Self {
        self.deferral.is_forced = true;
        self
    }

    /// Decides whether batches are measured late: on a device, in a run of one process, if the task can.
    pub(in crate::run) fn begin_measuring(&mut self) {
        self.deferral.is_apart = self.deferral.is_forced || !self.device().is_cpu();
        if !self.deferral.is_apart || self.ranks.is_some() {
            return;
        }
        if let Some(metrics) = self.task.deferred_metrics() {
            self.shared.deferred.set_metrics(metrics);
            self.deferral.is_on = true;
        }
    }

    /// The device of the parameters.
    pub(in crate::run) fn device(&self) -> Device {
        device_of(self.task)
    }

    /// Keeps a batch's loss and what its metrics are computed from, to be read later.
    pub(in crate::run) fn measure_deferred(
        &mut self,
        batch: &Batch,
        outputs: &Tensor,
        loss: &Tensor,
        phase: Phase,
    ) -> candle_core::Result<()> {
        let weight = self.task.loss_weight(batch)?;
        let samples = batch.len() as f64;
        self.update.of_batch = LossWeight { weight, samples };
        let metrics = self.task.deferred_metrics();
        let on_device = metrics.map(|metrics| metrics.sums_on_device(outputs, &batch.targets));
        let measure = match on_device.transpose()?.flatten() {
            Some(sums) => DeferredMeasure::Sums(sums),
            None => {
                DeferredMeasure::Outputs(outputs.detach(), device::copy_to_host(&batch.targets)?)
            }
        };
        let measured = DeferredBatch {
            phase,
            epoch: self.position.epoch,
            iteration: self.position.iteration,
            loss: loss.detach(),
            weight,
            samples,
            measure,
        };
        self.position.pass.loss = None;
        self.position.pass.loss_waits = true;
        self.shared.deferred.push(measured, &self.shared.metrics);
        Ok(())
    }

    /// Reads the loss before the hooks of a point are called, if one of them has to find it in its view.
    pub(in crate::run) fn read_loss_for(&mut self, point: Point) -> Result<(), RunError> {
        if self.hooks.needs_loss(point, &self.position) {
            self.settle_measures()?;
        }
        Ok(())
    }

    /// Reads the results of all batches, and looks at the losses of training.
    pub(in crate::run) fn settle_measures(&mut self) -> Result<(), RunError> {
        self.shared.deferred.settle(&self.shared.metrics);
        self.show_read_loss();
        self.note_read_losses()
    }

    /// Puts the last loss, which has been read, into the position.
    fn show_read_loss(&mut self) {
        let deferred = &self.shared.deferred;
        let position = &mut self.position;
        if position.pass.loss_waits {
            position.pass.loss = deferred.last(position.phase);
            position.pass.loss_waits = false;
        }
        if let Some(enclosing) = &mut position.evaluation.enclosing
            && enclosing.loss_waits
        {
            enclosing.loss = deferred.last(Phase::Train);
            enclosing.loss_waits = false;
        }
    }

    /// Looks at the training losses that have been read, by whomever, in the order of batches.
    pub(in crate::run) fn note_read_losses(&mut self) -> Result<(), RunError> {
        if let Some(error) = self.shared.deferred.take_failure() {
            let doing = "reading losses and metrics from the device";
            return Err(RunError::task(doing, &self.position, error));
        }
        for read in self.shared.deferred.take_losses() {
            let ReadLoss {
                phase,
                epoch,
                iteration,
                loss,
            } = read;
            if phase == Phase::Train {
                let at = Position {
                    phase,
                    epoch,
                    iteration,
                    ..Position::start(self.position.epochs)
                };
                self.note_loss(loss, &at);
            }
        }
        Ok(())
    }

    /// Reads the loss for an observer, now and then.
    pub(in crate::run) fn read_loss_for_observer(&mut self) {
        if !self.position.pass.loss_waits || self.outside.observer.is_none() {
            return;
        }
        let now = Instant::now();
        let viewed = self.deferral.viewed;
        if viewed.is_some_and(|viewed| now.duration_since(viewed) < VIEW_EVERY) {
            return;
        }
        self.deferral.viewed = Some(now);
        // A failure is kept for the next time that results are read.
        self.shared.deferred.settle(&self.shared.metrics);
        self.show_read_loss();
    }
}
