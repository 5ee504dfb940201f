//! Elapsed and remaining time.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// When this process began: the first call, which the command line makes before anything else.
pub fn process_start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// Measures steps that follow each other.
#[derive(Debug)]
pub struct Lap {
    begin: Instant,
}

impl Lap {
    /// Begins the first step.
    pub fn begin() -> Lap {
        Lap {
            begin: Instant::now(),
        }
    }

    /// Ends a step and begins the next one; returns its seconds.
    pub fn end(&mut self) -> f64 {
        let now = Instant::now();
        let step = now.duration_since(self.begin);
        self.begin = now;
        step.as_secs_f64()
    }
}

/// Monotonic clock of a run that also tracks training progress, to estimate the remaining time.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    /// Seconds the run took before this process.
    before: Cell<f64>,
    /// Start of the training loop, in seconds since the start of the run; shifted by pauses.
    training_since: Cell<f64>,
    /// Iterations already finished when the training loop began.
    done_before: Cell<u64>,
    done: Cell<u64>,
    total: Cell<u64>,
}

impl Clock {
    /// Returns a clock that starts now.
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

    /// Adds the time that earlier processes spent on this run.
    pub fn count_in(&self, seconds: f64) {
        self.before.set(seconds);
    }

    /// Seconds since the start of the run, earlier processes included.
    pub fn elapsed_seconds(&self) -> f64 {
        self.before.get() + self.start.elapsed().as_secs_f64()
    }

    /// Begins the training loop: `total` iterations, of which `done` are already finished.
    pub fn begin_training(&self, total: u64, done: u64) {
        self.done_before.set(done);
        self.done.set(done);
        self.training_since.set(self.elapsed_seconds());
        self.total.set(total);
    }

    /// Excludes a pause of this length from the training's pace.
    pub fn pause(&self, time: Duration) {
        let since = self.training_since.get() + time.as_secs_f64();
        self.training_since.set(since);
    }

    /// Records that `done` iterations are finished.
    pub fn advance(&self, done: u64) {
        self.done.set(done);
    }

    /// Seconds until the end of training at the pace so far, validation included; `None` before the
    /// first iteration is finished.
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
