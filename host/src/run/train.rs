//! The training loop: epochs, and the validations between them.

use std::ops::Range;
use std::sync::Arc;

use sconce_plugin_api::abi::ViewAbi;
use sconce_plugin_api::{Keep, Phase, Point};

use super::iteration::MicroBatch;
use super::profile::PassTimes;
use super::update::UpdateProgress;
use super::{RunError, Trainer};
use crate::checkpoint::{EpochStart, TrainingStage};
use crate::data::{Dataset, Loader, order};

impl Trainer<'_> {
    /// Runs all epochs, or those before a stop.
    pub(super) fn train(&mut self) -> Result<(), RunError> {
        let data = self
            .task
            .data(Phase::Train)
            .ok_or(RunError::NoTrainingData)?;
        let batches = data.len().div_ceil(self.plan.batch_size) as u64;
        let done = self.resumption.at.unwrap_or(0);
        let total = self.plan.epochs.saturating_mul(batches);
        self.shared.clock.begin_training(total, done);
        self.enter(Phase::Train);
        self.call(Point::BeforeLoop)?;
        self.resume_from_checkpoint(batches)?;
        self.update.progress = UpdateProgress::Between;
        self.begin()?;
        self.grant()?;
        if self.is_interrupted()? {
            return Ok(());
        }
        while self.has_more_to_train() {
            self.cycle(&data, batches)?;
            self.position.jumped = false;
            if self.is_interrupted()? {
                return Ok(());
            }
        }
        self.settle()?;
        self.call(Point::AfterLoop)
    }

    /// Runs the initial validation, if configured and not done yet.
    fn begin(&mut self) -> Result<(), RunError> {
        if self.position.stage != TrainingStage::Start || self.shared.requests.stops() {
            return Ok(());
        }
        if self.plan.initial_validation {
            self.validate(true)?;
        }
        self.position.stage = TrainingStage::Epoch;
        Ok(())
    }

    /// Whether there is something left to train, or to validate after a rollback or a resume.
    fn has_more_to_train(&self) -> bool {
        let is_left = match self.position.stage {
            TrainingStage::Start | TrainingStage::Epoch => self.view.epoch < self.plan.epochs,
            TrainingStage::Validation | TrainingStage::Cycle => true,
        };
        is_left && !self.shared.requests.stops()
    }

    /// Runs a training epoch and, if due, its validation, or the rest of both after a rollback. A rollback in
    /// the middle ends the cycle.
    fn cycle(&mut self, data: &Arc<dyn Dataset>, batches: u64) -> Result<(), RunError> {
        self.begin()?;
        match self.position.stage {
            TrainingStage::Start | TrainingStage::Epoch => self.epoch(data, batches)?,
            TrainingStage::Validation | TrainingStage::Cycle => {
                // The epoch was finished before a rollback or a resume.
                self.view.batch = batches;
                self.view.batches = batches;
            }
        }
        if self.is_left() {
            return Ok(());
        }
        if self.position.stage == TrainingStage::Validation
            && self.plan.validates_after(self.view.epoch)
        {
            self.validate(false)?;
            self.grant()?;
            if self.is_interrupted()? {
                return Ok(());
            }
        }
        self.position.stage = TrainingStage::Epoch;
        self.call(Point::AfterCycle)
    }

    /// Runs a pass over the training data, after the batches that are done. At its end the stage is
    /// `Validation`.
    fn epoch(&mut self, data: &Arc<dyn Dataset>, batches: u64) -> Result<(), RunError> {
        let done = self.position.trained;
        // A checkpoint of an earlier version only records how much of the epoch is done.
        let begun = self.position.begun.or_else(|| {
            (done > 0).then(|| EpochStart {
                iteration: self.view.iteration.saturating_sub(done),
                ..self.epoch_start()
            })
        });
        if begun.is_none() {
            self.shared.metrics.borrow_mut().begin(Phase::Train);
            self.shared.values.forget(Keep::Epoch);
            self.view.ordinal = 0;
        }
        let pass = self.training_pass();
        self.begin_pass(batches);
        self.view.batch = done;
        self.show();
        self.position.begun = begun.or_else(|| Some(self.epoch_start()));
        match begun {
            Some(start) => self.reopen(start, pass)?,
            None => self.call(Point::BeforeEpoch)?,
        }
        if self.position.jumped {
            return Ok(());
        }
        let order = order::training(self.plan.seed, self.view.epoch, data.len());
        let cut = EpochBatches {
            samples: order.len(),
            size: self.plan.batch_size,
        };
        let mut loader = Loader::new(
            Arc::clone(data),
            order,
            (done..batches)
                .map(|batch| cut.samples_of(batch..batch + 1))
                .collect(),
            self.view.epoch,
            self.plan.preparation,
        );
        for batch in done..batches {
            if !self.update.batches.contains(&batch) {
                self.update.batches = self.update_from(batch, batches);
            }
            let batch = cut.micro_batch(batch, &self.update.batches);
            self.iteration(&mut loader, &batch)?;
            self.show();
            if !self.position.jumped {
                self.grant()?;
            }
            if self.position.jumped || self.is_interrupted()? {
                return Ok(());
            }
            if self.shared.requests.stops_now() {
                break;
            }
        }
        if self.view.batch >= batches {
            self.view.epoch += 1;
            self.position.trained = 0;
            self.update.batches = 0..0;
            self.position.begun = None;
            self.position.stage = TrainingStage::Validation;
        }
        self.end_pass(Phase::Train)
    }

    /// The counters at the start of an epoch that begins now.
    fn epoch_start(&self) -> EpochStart {
        EpochStart {
            iteration: self.view.iteration,
            update: self.view.update,
            samples: self.view.samples,
        }
    }

    /// The batches of the update that starts with `batch`. A resumed run may be in the middle of an update,
    /// whose start then follows from the manifest's `accumulate`.
    fn update_from(&self, batch: u64, batches: u64) -> Range<u64> {
        let planned = self.plan.accumulate as u64;
        let (begin, count) = match self.shared.accumulation.get() {
            Some(count) => (batch, count),
            None => (batch - batch % planned.max(1), planned),
        };
        begin..batches.min(begin.saturating_add(count))
    }

    /// Whether the loops in progress are to be left, because of a rollback or a signal.
    fn is_left(&self) -> bool {
        self.position.jumped || self.outside.interrupted_by.is_some()
    }

    /// Validates, if there is validation data.
    pub(super) fn validate(&mut self, initial: bool) -> Result<(), RunError> {
        if self.task.data(Phase::Val).is_none() {
            return Ok(());
        }
        self.evaluate(Phase::Val, initial)?;
        self.view.ordinal += u64::from(!initial);
        self.evaluation.is_uncounted = false;
        Ok(())
    }

    /// Starts a pass over a phase's data.
    pub(super) fn begin_pass(&mut self, batches: u64) {
        self.hooks.take_times();
        self.timing.pass = PassTimes::begin();
        self.view.batch = 0;
        self.view.batches = batches;
        self.view.batch_size = 0;
        self.view.flags &= !(ViewAbi::HAS_LOSS | ViewAbi::UPDATES);
    }
}

/// Division of an epoch's samples into batches.
#[derive(Clone, Copy)]
struct EpochBatches {
    samples: usize,
    size: usize,
}

impl EpochBatches {
    /// Positions of these batches' samples in the epoch's order.
    fn samples_of(self, batches: Range<u64>) -> Range<usize> {
        let place = |batch: u64| self.samples.min((batch as usize).saturating_mul(self.size));
        place(batches.start)..place(batches.end)
    }

    /// A batch, as part of the update that consists of the batches `update`.
    fn micro_batch(self, batch: u64, update: &Range<u64>) -> MicroBatch {
        let range = self.samples_of(batch..batch + 1);
        MicroBatch {
            fraction: range.len() as f64 / self.samples_of(update.clone()).len() as f64,
            range,
            updates: batch + 1 == update.end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_has_its_batches_and_what_is_left_is_one_too() {
        let cut = EpochBatches {
            samples: 23,
            size: 5,
        };
        let updates = [0..2, 0..2, 2..4, 2..4, 4..5];
        let batches: Vec<_> = (0..5)
            .zip(&updates)
            .map(|(batch, update)| cut.micro_batch(batch, update))
            .collect();
        let ranges: Vec<_> = batches.iter().map(|batch| batch.range.clone()).collect();
        assert_eq!(ranges, [0..5, 5..10, 10..15, 15..20, 20..23]);
        let updates: Vec<bool> = batches.iter().map(|batch| batch.updates).collect();
        assert_eq!(updates, [false, true, false, true, true]);
        for (batch, share) in batches.iter().zip([0.5, 0.5, 0.5, 0.5, 1.0]) {
            assert!((batch.fraction - share).abs() < f64::EPSILON);
        }
        let last = cut.micro_batch(4, &(3..5));
        assert!((last.fraction - 3.0 / 8.0).abs() < f64::EPSILON);
    }
}
