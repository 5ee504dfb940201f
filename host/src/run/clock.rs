//! Time used and time to go.

use std::cell::Cell;
use std::time::Instant;

/// The clock of a run: monotonic, and it knows how much of the training is done.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    /// When the training loop began, in seconds since the start.
    training_since: Cell<f64>,
    done: Cell<u64>,
    total: Cell<u64>,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock {
            start: Instant::now(),
            training_since: Cell::new(0.0),
            done: Cell::new(0),
            total: Cell::new(0),
        }
    }

    /// Seconds since the start.
    pub fn elapsed_seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// The training begins: `total` iterations lie ahead.
    pub fn begin_training(&self, total: u64) {
        self.training_since.set(self.elapsed_seconds());
        self.total.set(total);
    }

    /// `done` iterations are finished.
    pub fn advance(&self, done: u64) {
        self.done.set(done);
    }

    /// Seconds until the training's end at the pace so far, validations counted in; nothing before
    /// the first iteration is finished.
    pub fn remaining_seconds(&self) -> Option<f64> {
        let (done, total) = (self.done.get(), self.total.get());
        if done == 0 {
            return None;
        }
        let used = self.elapsed_seconds() - self.training_since.get();
        Some(used / done as f64 * total.saturating_sub(done) as f64)
    }
}
