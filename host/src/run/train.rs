//! The training: epochs, the validations between them, and where each ends.

use std::sync::Arc;

use sconce_plugin_api::abi::ViewAbi;
use sconce_plugin_api::{Phase, Point};

use super::iteration::MicroBatch;
use super::profile::PassTimes;
use super::{RunError, Trainer};
use crate::data::{Dataset, order};

impl Trainer<'_> {
    /// All epochs, or as many as there are before a stop.
    pub(super) fn train(&mut self) -> Result<(), RunError> {
        let data = self
            .task
            .data(Phase::Train)
            .ok_or(RunError::NoTrainingData)?;
        let batches = data.len().div_ceil(self.plan.batch_size) as u64;
        self.shared.clock.begin_training(self.plan.epochs * batches);
        self.enter(Phase::Train);
        self.call(Point::BeforeLoop)?;
        if self.plan.initial_validation && !self.shared.requests.stops() {
            self.validate(true)?;
        }
        while self.view.epoch < self.plan.epochs && !self.shared.requests.stops() {
            self.cycle(&data, batches)?;
        }
        self.call(Point::AfterLoop)
    }

    /// A training epoch and, where due, its validation.
    fn cycle(&mut self, data: &Arc<dyn Dataset>, batches: u64) -> Result<(), RunError> {
        self.view.ordinal = 0;
        let is_whole = self.epoch(data, batches)?;
        if is_whole && self.plan.validates_after(self.view.epoch) {
            self.validate(false)?;
        }
        self.call(Point::AfterCycle)
    }

    /// One pass over the training data; whether it reached the end.
    fn epoch(&mut self, data: &Arc<dyn Dataset>, batches: u64) -> Result<bool, RunError> {
        self.shared.metrics.borrow_mut().begin(Phase::Train);
        self.begin_pass(batches);
        self.call(Point::BeforeEpoch)?;
        let order = order::training(self.plan.seed, self.view.epoch, data.len());
        let groups = self.plan.batch_size * self.plan.accumulate;
        'epoch: for group in order.chunks(groups) {
            let micro_batches = group.chunks(self.plan.batch_size);
            let last = micro_batches.len() - 1;
            for (index, indices) in micro_batches.enumerate() {
                let batch = MicroBatch {
                    indices,
                    share: indices.len() as f64 / group.len() as f64,
                    updates: index == last,
                };
                self.iteration(data.as_ref(), &batch)?;
                if self.shared.requests.stops_now() {
                    break 'epoch;
                }
            }
        }
        // What a stop between updates leaves behind belongs to no update.
        self.accumulated = None;
        let is_whole = self.view.batch == batches;
        self.view.epoch += u64::from(is_whole);
        self.end_pass(Phase::Train)?;
        Ok(is_whole)
    }

    /// A validation, where there is data for one.
    fn validate(&mut self, initial: bool) -> Result<(), RunError> {
        if self.task.data(Phase::Val).is_none() {
            return Ok(());
        }
        self.evaluate(Phase::Val, initial)?;
        self.view.ordinal += u64::from(!initial);
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
