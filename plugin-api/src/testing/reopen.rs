//! An epoch that began before a resume or a rollback, reopened as a host does it.
//!
//! `before_epoch` is called again with the counters that the epoch began with. Everything the hook changes or publishes
//! there is set back afterwards, and what it requests is ignored, except for deleting a checkpoint and listening at
//! modules: it is part of the checkpoint.

use super::drive::{Drive, Stopped};
use crate::Point;

/// The counters when `before_epoch` was called for an epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct EpochCounters {
    iteration: u64,
    update: u64,
    samples: u64,
}

impl Drive<'_> {
    /// Where an epoch starts that starts now.
    pub(super) fn epoch_start(&self) -> EpochCounters {
        EpochCounters {
            iteration: self.view.iteration,
            update: self.view.update,
            samples: self.view.samples,
        }
    }

    /// Calls `before_epoch` of an epoch that began at `start`.
    pub(super) fn reopen(&mut self, start: EpochCounters) -> Result<(), Stopped> {
        let stage = &self.stage;
        let parameters = stage.parameters.borrow().clone();
        let groups = stage.groups.borrow().clone();
        let board = stage.board.borrow().clone();
        let values = stage.values.borrow().clone();
        let accumulation = stage.accumulation.get();
        let now = self.epoch_start();
        let (batch, ordinal) = (self.view.batch, self.view.ordinal);

        self.show(start, 0, 0);
        let seen = self.stage.seen.borrow().marks();
        self.is_reopening = true;
        let called = self.call(Point::BeforeEpoch);
        self.is_reopening = false;
        // What it did there has no effect, and an uninterrupted run does not have it.
        self.stage.seen.borrow_mut().cut(seen);

        self.show(now, batch, ordinal);
        let stage = &self.stage;
        *stage.parameters.borrow_mut() = parameters;
        *stage.groups.borrow_mut() = groups;
        stage.board.borrow_mut().restore(&board);
        *stage.values.borrow_mut() = values;
        stage.accumulation.set(accumulation);
        called
    }

    fn show(&mut self, counters: EpochCounters, batch: u64, ordinal: u64) {
        let view = &mut self.view;
        (view.iteration, view.update) = (counters.iteration, counters.update);
        view.samples = counters.samples;
        (view.batch, view.ordinal) = (batch, ordinal);
    }
}
