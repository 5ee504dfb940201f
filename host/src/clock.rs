//! Time used and time to go.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The clock of a run: monotonic, and it knows how much of the training is done.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    /// Seconds of the run before this process.
    before: Cell<f64>,
    /// When the training loop began, in seconds since the start.
    training_since: Cell<f64>,
    /// The iterations that were finished when the training loop began.
    done_before: Cell<u64>,
    done: Cell<u64>,
    total: Cell<u64>,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock {
            start: Instant::now(),
            before: Cell::new(0.0),
            training_since: Cell::new(0.0),
            done_before: Cell::new(0),
            done: Cell::new(0),
            total: Cell::new(0),
        }
    }

    /// Counts in what the run took before this process.
    pub fn count_in(&self, seconds: f64) {
        self.before.set(seconds);
    }

    /// Seconds since the start.
    pub fn elapsed_seconds(&self) -> f64 {
        self.before.get() + self.start.elapsed().as_secs_f64()
    }

    /// The training begins: it has `total` iterations, of which `done` are finished.
    pub fn begin_training(&self, total: u64, done: u64) {
        self.done_before.set(done);
        self.done.set(done);
        self.training_since.set(self.elapsed_seconds());
        self.total.set(total);
    }

    /// The training has waited for so long: its pace does not count that.
    pub fn pause(&self, time: Duration) {
        let since = self.training_since.get() + time.as_secs_f64();
        self.training_since.set(since);
    }

    /// `done` iterations are finished.
    pub fn advance(&self, done: u64) {
        self.done.set(done);
    }

    /// Seconds until the training's end at the pace so far, validations counted in; nothing before
    /// the first iteration is finished.
    pub fn remaining_seconds(&self) -> Option<f64> {
        let (all_done, total) = (self.done.get(), self.total.get());
        let done = all_done.saturating_sub(self.done_before.get());
        if done == 0 {
            return None;
        }
        let used = self.elapsed_seconds() - self.training_since.get();
        Some(used / done as f64 * total.saturating_sub(all_done) as f64)
    }
}
