//! The training: epochs, the validations between them, and where each ends.

use std::sync::Arc;

use sconce_plugin_api::abi::ViewAbi;
use sconce_plugin_api::{Keep, Phase, Point};

use super::iteration::MicroBatch;
use super::profile::PassTimes;
use super::{RunError, Trainer};
use crate::checkpoint::Stage;
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
        while self.goes_on() {
            self.cycle(&data, batches)?;
            self.jumped = false;
        }
        self.call(Point::AfterLoop)
    }

    /// Whether there is something left to train, or to validate after a roll back.
    fn goes_on(&self) -> bool {
        let is_left = self.view.epoch < self.plan.epochs || self.stage == Stage::Validation;
        is_left && !self.shared.requests.stops()
    }

    /// A training epoch and, where due, its validation; or what is left of both after a roll back.
    /// A roll back in the midst ends it.
    fn cycle(&mut self, data: &Arc<dyn Dataset>, batches: u64) -> Result<(), RunError> {
        if self.stage == Stage::Epoch {
            self.epoch(data, batches)?;
        }
        if self.stage == Stage::Validation && !self.jumped {
            if self.plan.validates_after(self.view.epoch) {
                self.validate(false)?;
            }
            self.stage = Stage::Epoch;
        }
        if self.jumped {
            return Ok(());
        }
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
        for batch in micro_batches(&order, size, accumulate).skip(done as usize) {
            self.iteration(data.as_ref(), &batch)?;
            if self.jumped {
                return Ok(());
            }
            if self.shared.requests.stops_now() {
                break;
            }
        }
        // What a stop between updates leaves behind belongs to no update.
        self.accumulated = None;
        if self.view.batch == batches {
            self.view.epoch += 1;
            self.trained = 0;
            self.stage = Stage::Validation;
        }
        self.end_pass(Phase::Train)
    }

    /// A validation, where there is data for one.
    pub(super) fn validate(&mut self, initial: bool) -> Result<(), RunError> {
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

/// The batches of an epoch, in the order of its samples.
fn micro_batches(
    order: &[u32],
    size: usize,
    accumulate: usize,
) -> impl Iterator<Item = MicroBatch<'_>> {
    order.chunks(size * accumulate).flat_map(move |group| {
        let last = group.len().div_ceil(size) - 1;
        group
            .chunks(size)
            .enumerate()
            .map(move |(index, indices)| MicroBatch {
                indices,
                share: indices.len() as f64 / group.len() as f64,
                updates: index == last,
            })
    })
}
