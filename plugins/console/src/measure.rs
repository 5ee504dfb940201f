//! Measurements between two lines: the smoothed loss, and the speed.

use std::collections::VecDeque;
use std::time::Duration;

/// Losses of the last iterations.
pub(crate) struct Window {
    losses: VecDeque<f64>,
    size: usize,
}

impl Window {
    /// Creates an empty window over `size` iterations, at least one.
    pub(crate) fn new(size: usize) -> Self {
        Window {
            losses: VecDeque::new(),
            size,
        }
    }

    /// Adds a loss; the oldest one is dropped if the window is full.
    pub(crate) fn push(&mut self, loss: f64) {
        if self.losses.len() == self.size {
            self.losses.pop_front();
        }
        self.losses.push_back(loss);
    }

    /// Mean of the losses; `None` before the first. It is summed from scratch each time, so that a
    /// NaN no longer counts once it has left the window.
    pub(crate) fn mean(&self) -> Option<f64> {
        let count = self.losses.len();
        (count > 0).then(|| self.losses.iter().sum::<f64>() / count as f64)
    }
}

/// Counts samples since a point in time, given as the time since the run began.
#[derive(Clone, Copy, Default)]
pub(crate) struct Meter {
    since: Duration,
    samples: u64,
}

impl Meter {
    /// Starts measuring now.
    pub(crate) fn start(now: Duration) -> Self {
        Meter {
            since: now,
            samples: 0,
        }
    }

    pub(crate) fn add(&mut self, samples: u64) {
        self.samples += samples;
    }

    /// Excludes a time during which something else was done.
    pub(crate) fn leave_out(&mut self, pause: Duration) {
        self.since += pause;
    }

    /// Time measured so far.
    pub(crate) fn time(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }

    /// Samples per second; `None` if no time has passed.
    pub(crate) fn speed(&self, now: Duration) -> Option<f64> {
        let seconds = self.time(now).as_secs_f64();
        (seconds > 0.0).then(|| self.samples as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_over_the_last_losses() {
        let mut window = Window::new(3);
        assert_eq!(window.mean(), None);
        let cases = [(3.0, 3.0), (6.0, 4.5), (0.0, 3.0), (9.0, 5.0)];
        for (loss, mean) in cases {
            window.push(loss);
            assert_eq!(window.mean(), Some(mean));
        }
    }

    #[test]
    fn a_loss_that_is_no_number_leaves_the_window() {
        let mut window = Window::new(2);
        window.push(f64::NAN);
        assert!(window.mean().is_some_and(f64::is_nan));
        window.push(1.0);
        window.push(3.0);
        assert_eq!(window.mean(), Some(2.0));
    }

    #[test]
    fn speed_is_samples_over_the_time_that_counts() {
        let seconds = Duration::from_secs;
        let mut meter = Meter::start(seconds(10));
        meter.add(64);
        meter.add(36);
        assert_eq!(meter.speed(seconds(10)), None);
        assert_eq!(meter.speed(seconds(12)), Some(50.0));
        meter.leave_out(seconds(3));
        assert_eq!(meter.time(seconds(18)), seconds(5));
        assert_eq!(meter.speed(seconds(18)), Some(20.0));
    }
}
