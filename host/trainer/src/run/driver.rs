//! What the trainer does between the mount points; the order is that of [`sconce_lifecycle`].

use std::sync::Arc;

use candle_core::Tensor;
use sconce_lifecycle::{
    Consistency, EpochBatches, MicroBatch, Position, Ranked, RunDriver, Stopping, rounds_of,
};
use sconce_plugin_api::{Keep, Phase, Point};

use super::failure::Leave;
use super::{RunError, Trainer, device_of};
use crate::checkpoint::Store;
use crate::data::order::Order;
use crate::data::{Batch, Dataset, Loader};
use crate::dispatch::Payload;
use crate::nn::ops;
use crate::run::checkpoints::epoch_snapshot::EpochSnapshot;
use crate::run::iteration::feed::load_batch;
use crate::run::iteration::staging::Staging;
use crate::run::ranks::state::Ranks;

/// What a training batch's forward and backward pass need: the record of its operations, and the frozen parameters,
/// which may change from one batch to the next.
pub struct Recording {
    _operations: ops::Recording,
    _constants: ops::HeldConstants,
}

/// The batches of a pass that this rank processes.
pub struct PassBatches {
    staging: Staging,
    /// Their indices in the epoch.
    planned: std::vec::IntoIter<u64>,
}

impl RunDriver for Trainer<'_> {
    type Error = RunError;
    type Batches = PassBatches;
    type Batch = Batch;
    type Outputs = Tensor;
    type Loss = Tensor;
    type Recording = Recording;
    type Snapshot = EpochSnapshot;

    fn position(&mut self) -> &mut Position {
        &mut self.position
    }

    fn ranked(&self) -> Ranked {
        let ranks = self.ranks.as_ref();
        ranks.map_or(Ranked::ALONE, Ranks::ranked)
    }

    fn batches_of(&self, phase: Phase) -> Option<EpochBatches> {
        let samples = self.data_of(phase)?.len();
        let size = match phase {
            Phase::Train => self.plan.batch_size,
            _ => self.plan.eval_batch_size,
        };
        Some(EpochBatches { samples, size })
    }

    fn validates_first(&self) -> bool {
        self.plan.initial_validation
    }

    fn validates_after(&self, epoch: u64) -> bool {
        let every = self.plan.validate_every;
        every.is_due_after(epoch, self.plan.epochs)
    }

    fn validation_interval(&self) -> Option<u64> {
        self.plan.validate_every.iterations()
    }

    fn validate_within(&mut self) -> Result<(), Leave> {
        self.validate_now()
    }

    fn tests(&self) -> bool {
        self.plan.test
    }

    fn accumulation(&self) -> (Option<u64>, u64) {
        let ranks = self.ranks.as_ref();
        let factor = ranks.map_or(1, Ranks::batches_factor);
        let requested = self.shared.optimizer.accumulation.get();
        (
            requested.map(|batches| batches.saturating_mul(factor)),
            (self.plan.accumulate as u64).saturating_mul(factor),
        )
    }

    fn stopping(&self) -> Stopping {
        if let Some(ranks) = &self.ranks {
            return ranks.stopping();
        }
        if !self.shared.requests.stops() {
            Stopping::No
        } else if self.shared.requests.stops_now() {
            Stopping::Now
        } else {
            Stopping::AfterEpoch
        }
    }

    #[inline]
    fn call(&mut self, point: Point) -> Result<(), Leave> {
        self.call_hooks(point)
    }

    fn call_profile(&mut self, phase: Phase) -> Result<(), Leave> {
        let pass = self.timing.end_pass(phase, &mut self.hooks, self.shared);
        (self.outside).show_end(phase, &pass, &self.position, self.shared);
        let entries = pass.hook_entries(&self.timing.wall.take_served());
        let payload = pass.payload(&entries);
        self.call_with(Point::EpochProfile, Payload::Profile(&payload))
    }

    fn begin_training(&mut self) -> Result<(), Leave> {
        let batches = self
            .batches_of(Phase::Train)
            .ok_or(RunError::NoTrainingData)?;
        let done = self.resumption.at.unwrap_or(0);
        let (_, per_update) = self.accumulation();
        let rounds = rounds_of(batches.count(), per_update, self.ranked());
        let total = self.plan.epochs.saturating_mul(rounds);
        self.shared.clock.begin_training(total, done);
        if let Some(ranks) = &mut self.ranks {
            ranks.agree_on_settings(self.shared, self.task);
        }
        Ok(())
    }

    fn resume(&mut self) -> Result<(), Leave> {
        let batches = self.batches_of(Phase::Train);
        self.resume_from_checkpoint(batches.map_or(0, EpochBatches::count))
    }

    fn settle(&mut self) -> Result<(), Leave> {
        self.restart_ended()?;
        self.settle_writing()
    }

    fn serve_requests(&mut self) -> Result<(), Leave> {
        if self.learning.measures.deferral.is_on {
            self.learning
                .measures
                .note_read(&self.position, self.shared)?;
        }
        if self.ranks.is_some() {
            return self.serve_requests_on_ranks();
        }
        self.serve_outside()?;
        self.leave_if_interrupted()
    }

    fn check_interrupt(&mut self) -> Result<(), Leave> {
        if self.ranks.is_some() {
            return self.serve_requests_on_ranks();
        }
        self.leave_if_interrupted()
    }

    fn reset_pass(&mut self, phase: Phase) {
        self.shared.device.deferred.settle(&self.shared.metrics);
        self.shared.metrics.borrow_mut().begin(phase);
        if phase == Phase::Train {
            self.shared.values.forget(Keep::Epoch);
        }
    }

    fn begin_pass(&mut self) {
        self.timing.begin_pass(self.position.phase, &mut self.hooks);
    }

    fn show(&mut self) {
        if self.outside.observer.is_some() {
            (self.learning.measures).read_for_observer(&mut self.position, self.shared);
        }
        let times = &self.timing.pass;
        (self.outside).show(&self.position, self.shared, &self.hooks, times);
    }

    fn snapshot(&mut self) -> Result<EpochSnapshot, Leave> {
        EpochSnapshot::take(self.task.parameters(), self.shared)
            .map_err(|error| RunError::task("resuming an epoch", &self.position, error).into())
    }

    fn restore_snapshot(&mut self, snapshot: EpochSnapshot) -> Result<(), Leave> {
        (snapshot.put_back(self.task.parameters(), self.shared))
            .map_err(|error| RunError::task("resuming an epoch", &self.position, error).into())
    }

    fn open(&mut self, phase: Phase, done: u64) -> Result<PassBatches, Leave> {
        let (Some(data), Some(division)) = (self.data_of(phase), self.batches_of(phase)) else {
            return Err(RunError::NoTrainingData.into());
        };
        if phase == Phase::Train
            && let Some(reason) = self.saver.store.as_ref().and_then(Store::lost)
        {
            // All that follows would be lost.
            return Err(RunError::Vanished(reason).into());
        }
        let planned = if phase == Phase::Train {
            let (requested, planned) = self.accumulation();
            let mut update = self.position.update_batches.clone();
            if requested.is_none() && !update.contains(&done) {
                // Resumed within an update of the manifest's length, of which checkpoints keep no record.
                let begin = done - done % planned.max(1);
                update = begin..begin.saturating_add(planned);
            }
            division.batches_of(self.ranked(), done, &update, requested.unwrap_or(planned))
        } else {
            match &mut self.ranks {
                Some(ranks) => ranks.divide_evaluation(phase, division.count(), &self.hooks)?,
                None => (0..division.count()).collect(),
            }
        };
        let (data, order): (Arc<dyn Dataset>, _) = if phase == Phase::Train {
            let order = (self.feed).training_order(data.as_ref(), &self.plan, &self.position)?;
            (data, order)
        } else {
            let data = data.plain().unwrap_or(data);
            // A data set has at most as many samples.
            let order = Order::Natural(u32::try_from(data.len()).unwrap_or(u32::MAX));
            (data, order)
        };
        let batches = (planned.iter())
            .map(|&batch| division.samples_of(batch..batch + 1))
            .collect();
        let (epoch, preparation) = (self.position.epoch, self.plan.preparation);
        let loader = Loader::new(data, order, batches, epoch, preparation);
        Ok(PassBatches {
            staging: (self.feed).stage(loader, &device_of(self.task), &self.position)?,
            planned: planned.into_iter(),
        })
    }

    fn next_batch(&mut self, batches: &mut PassBatches) -> Result<Option<Batch>, Leave> {
        let times = &mut self.timing.pass;
        Ok(load_batch(&mut batches.staging, times, &self.position)?)
    }

    fn next_batch_or_reopen(
        &mut self,
        batches: &mut PassBatches,
        batch: &MicroBatch,
    ) -> Result<Option<Batch>, Leave> {
        if let Some(ranks) = &self.ranks {
            ranks.team.set_repeated(batch.round.is_repeated);
        }
        if batches.planned.next() != Some(batch.batch) {
            // A hook has changed the number of batches per update since the pass was opened: another batch is this rank's.
            *batches = self.open(Phase::Train, self.position.trained)?;
            batches.planned.next();
        }
        self.next_batch(batches)
    }

    fn size_of(&self, batch: &Batch) -> u64 {
        batch.len() as u64
    }

    fn show_batch(&mut self, batch: &Batch) {
        let tensors = &self.shared.tensors;
        tensors.set_batch(&batch.inputs, &batch.targets, &batch.indices);
        for (size, inputs) in (1..).zip(&batch.further_inputs) {
            tensors.show(format!("inputs.{size}").into(), inputs);
        }
        let position = self.learning.forward.key(&self.position);
        self.hook_passes.show(batch, position);
    }

    fn end_batch(&mut self) {
        self.hook_passes.hide();
        self.shared.tensors.clear_batch();
        self.shared.values.end_batch();
    }

    fn take_skip_batch(&mut self) -> bool {
        self.shared.requests.take_skip_batch()
    }

    fn take_skip_update(&mut self) -> Result<bool, Leave> {
        let is_skipped = self.shared.requests.take_skip_update();
        let Some(ranks) = &mut self.ranks else {
            return Ok(is_skipped);
        };
        let update = self.position.update;
        Ok(ranks.agree_on_step(is_skipped, update, self.shared, self.task)?)
    }

    fn check_training_batch(&mut self) -> Result<(), Leave> {
        // Of a batch before a rollback.
        self.learning.update.is_stepped = false;
        self.expect_real_parameters()
    }

    fn record(&mut self) -> Recording {
        Recording {
            _operations: ops::record(),
            _constants: ops::hold(self.task.parameters().held()),
        }
    }

    fn forward(&mut self, batch: &Batch, _phase: Phase) -> Result<Tensor, Leave> {
        let (learning, mut run) = self.learning();
        Ok(learning.outputs(batch, &mut run)?)
    }

    fn measure(&mut self, batch: &Batch, outputs: &Tensor, _phase: Phase) -> Result<Tensor, Leave> {
        let (learning, mut run) = self.learning();
        Ok(learning.measure(batch, outputs, &mut run)?)
    }

    fn backward(&mut self, batch: &Batch, loss: Tensor, fraction: f64) -> Result<(), Leave> {
        let (learning, mut run) = self.learning();
        Ok(learning.differentiate_or_step(batch, loss, fraction, &mut run)?)
    }

    fn accumulate(&mut self) -> Result<(), Leave> {
        let (learning, run) = self.learning();
        learning.accumulate(&run)?;
        if self.ranks.is_some() {
            // Checkpoints of several ranks go back to the start of the update.
            self.position.consistency = Consistency::Batch;
        }
        Ok(())
    }

    fn show_accumulated(&mut self) -> Result<bool, Leave> {
        if self.learning.update.is_stepped {
            return Ok(true);
        }
        let (learning, mut run) = self.learning();
        let Some(gradients) = learning.take_gradient_sum(&mut run)? else {
            return Ok(false);
        };
        self.shared.tensors.set_gradients(gradients);
        Ok(true)
    }

    fn step(&mut self, is_skipped: bool) -> Result<bool, Leave> {
        let (learning, mut run) = self.learning();
        Ok(learning.step(is_skipped, &mut run)?)
    }

    fn advance(&mut self) {
        self.shared.clock.advance(self.position.iteration);
    }

    fn share_evaluated(&mut self) -> Result<(), Leave> {
        let (phase, sums) = (self.position.phase, self.task.sum_count());
        while let Some(ranks) = &mut self.ranks
            && let Some(measured) = ranks.share_rest(sums)?
        {
            (self.learning.measures).add(phase, &measured, self.task, self.shared);
        }
        let divided = (self.ranks.as_mut()).and_then(|ranks| ranks.evaluation.take());
        if let Some(divided) = divided {
            self.position.pass.batch = divided.batches;
        }
        Ok(())
    }

    fn end_measuring(&mut self, phase: Phase) {
        let weights = (self.sets).weights_of(self.sets.swapped_set(), &self.position);
        self.shared.metrics.borrow_mut().end(phase, weights);
    }

    fn note_evaluated(&mut self) {
        self.sets.measured = self.sets.swapped_set();
    }

    fn save_delayed(&mut self) -> Result<(), Leave> {
        while let Some((tag, hook, options)) = self.saver.waiting.pop_front() {
            self.serving(&hook, |trainer| trainer.save(&tag, &hook, options))?;
        }
        Ok(())
    }
}
