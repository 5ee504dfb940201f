//! The training: epochs, the validations between them, and where each ends.

use std::sync::Arc;

use sconce_plugin_api::abi::ViewAbi;
use sconce_plugin_api::{Keep, Phase, Point};

use super::iteration::MicroBatch;
use super::profile::PassTimes;
use super::save::Midst;
use super::{RunError, Trainer};
use crate::checkpoint::Stage;
use crate::data::{Dataset, Loader, order};

impl Trainer<'_> {
    /// All epochs, or as many as there are before a stop.
    pub(super) fn train(&mut self) -> Result<(), RunError> {
        let data = self
            .task
            .data(Phase::Train)
            .ok_or(RunError::NoTrainingData)?;
        let batches = data.len().div_ceil(self.plan.batch_size) as u64;
        let done = self.resumed_at.unwrap_or(0);
        let total = self.plan.epochs * batches;
        self.shared.clock.begin_training(total, done);
        self.enter(Phase::Train);
        self.call(Point::BeforeLoop)?;
        self.go_on(batches)?;
        self.midst = Midst::Between;
        self.begin()?;
        if self.is_interrupted()? {
            return Ok(());
        }
        while self.goes_on() {
            self.cycle(&data, batches)?;
            self.jumped = false;
            if self.is_interrupted()? {
                return Ok(());
            }
        }
        self.settle()?;
        self.call(Point::AfterLoop)
    }

    /// The initial validation, where it is wanted and has not been.
    fn begin(&mut self) -> Result<(), RunError> {
        if self.stage != Stage::Start || self.shared.requests.stops() {
            return Ok(());
        }
        if self.plan.initial_validation {
            self.validate(true)?;
        }
        self.stage = Stage::Epoch;
        Ok(())
    }

    /// Whether there is something left to train, or to validate after a roll back or a resume.
    fn goes_on(&self) -> bool {
        let is_left = match self.stage {
            Stage::Start | Stage::Epoch => self.view.epoch < self.plan.epochs,
            Stage::Validation | Stage::Cycle => true,
        };
        is_left && !self.shared.requests.stops()
    }

    /// A training epoch and, where due, its validation; or what is left of both after a roll back.
    /// A roll back in the midst ends it.
    fn cycle(&mut self, data: &Arc<dyn Dataset>, batches: u64) -> Result<(), RunError> {
        self.begin()?;
        match self.stage {
            Stage::Start | Stage::Epoch => self.epoch(data, batches)?,
            Stage::Validation | Stage::Cycle => {
                // The epoch was finished before a roll back or a resume.
                self.view.batch = batches;
                self.view.batches = batches;
            }
        }
        if self.is_left() {
            return Ok(());
        }
        if self.stage == Stage::Validation && self.plan.validates_after(self.view.epoch) {
            self.validate(false)?;
            if self.is_interrupted()? {
                return Ok(());
            }
        }
        self.stage = Stage::Epoch;
        self.call(Point::AfterCycle)
    }

    /// One pass over the training data, behind the batches that are done. At its end the stage is
    /// the validation.
    fn epoch(&mut self, data: &Arc<dyn Dataset>, batches: u64) -> Result<(), RunError> {
        let done = self.trained;
        if done == 0 {
            self.shared.metrics.borrow_mut().begin(Phase::Train);
            self.shared.values.forget(Keep::Epoch);
            self.view.ordinal = 0;
        }
        self.begin_pass(batches);
        self.view.batch = done;
        self.call(Point::BeforeEpoch)?;
        if self.jumped {
            return Ok(());
        }
        let order = order::training(self.plan.seed, self.view.epoch, data.len());
        let (size, accumulate) = (self.plan.batch_size, self.plan.accumulate);
        let mut micro_batches = micro_batches(order.len(), size, accumulate);
        micro_batches.drain(..micro_batches.len().min(done as usize));
        let mut loader = Loader::new(
            Arc::clone(data),
            order,
            micro_batches
                .iter()
                .map(|batch| batch.range.clone())
                .collect(),
            self.view.epoch,
            self.plan.preparation,
        );
        for batch in micro_batches {
            self.iteration(&mut loader, &batch)?;
            if self.jumped || self.is_interrupted()? {
                return Ok(());
            }
            if self.shared.requests.stops_now() {
                break;
            }
        }
        if self.view.batch == batches {
            self.view.epoch += 1;
            self.trained = 0;
            self.stage = Stage::Validation;
        }
        self.end_pass(Phase::Train)
    }

    /// Whether the loops under way are left, by a roll back or a signal.
    fn is_left(&self) -> bool {
        self.jumped || self.interrupted_by.is_some()
    }

    /// A validation, where there is data for one.
    pub(super) fn validate(&mut self, initial: bool) -> Result<(), RunError> {
        if self.task.data(Phase::Val).is_none() {
            return Ok(());
        }
        self.evaluate(Phase::Val, initial)?;
        self.view.ordinal += u64::from(!initial);
        self.evaluation.is_uncounted = false;
        Ok(())
    }

    /// A pass over a phase's data begins.
    pub(super) fn begin_pass(&mut self, batches: u64) {
        self.hooks.take_times();
        self.times = PassTimes::begin();
        self.view.batch = 0;
        self.view.batches = batches;
        self.view.batch_size = 0;
        self.view.flags &= !(ViewAbi::HAS_LOSS | ViewAbi::UPDATES);
    }
}

/// The batches of an epoch of so many samples.
fn micro_batches(samples: usize, size: usize, accumulate: usize) -> Vec<MicroBatch> {
    let mut batches = Vec::with_capacity(samples.div_ceil(size));
    for group in (0..samples).step_by(size.saturating_mul(accumulate)) {
        let group_end = samples.min(group.saturating_add(size.saturating_mul(accumulate)));
        for start in (group..group_end).step_by(size) {
            let end = group_end.min(start.saturating_add(size));
            batches.push(MicroBatch {
                range: start..end,
                share: (end - start) as f64 / (group_end - group) as f64,
                updates: end == group_end,
            });
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_has_its_batches_and_what_is_left_is_one_too() {
        let batches = micro_batches(23, 5, 2);
        let ranges: Vec<_> = batches.iter().map(|batch| batch.range.clone()).collect();
        assert_eq!(ranges, [0..5, 5..10, 10..15, 15..20, 20..23]);
        let updates: Vec<bool> = batches.iter().map(|batch| batch.updates).collect();
        assert_eq!(updates, [false, true, false, true, true]);
        for (batch, share) in batches.iter().zip([0.5, 0.5, 0.5, 0.5, 1.0]) {
            assert!((batch.share - share).abs() < f64::EPSILON);
        }
        assert!(micro_batches(0, 5, 2).is_empty());
    }
}
