//! How long hooks take, at next to no cost: calls that turn out to be short are timed in samples.

use std::time::{Duration, Instant};

/// The first calls of each pass are all timed.
const FIRST: u64 = 16;

/// Then one in so many, as long as calls are short.
const SAMPLE: u64 = 16;

/// A call of this length is not short: reading the clock is nothing beside it.
const SHORT: Duration = Duration::from_micros(5);

/// The times of a hook in one pass over a phase's data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HookTimes {
    /// How often it was called.
    pub calls: u64,
    timed: u64,
    sum: Duration,
    /// The longest of the calls that were timed.
    pub longest: Duration,
}

impl HookTimes {
    /// A call begins; the time, if this one is timed.
    #[inline]
    pub(super) fn begin(&mut self) -> Option<Instant> {
        self.calls += 1;
        let is_timed =
            self.calls <= FIRST || self.calls.is_multiple_of(SAMPLE) || self.longest >= SHORT;
        is_timed.then(Instant::now)
    }

    /// The call is over.
    #[inline]
    pub(super) fn end(&mut self, begin: Option<Instant>) {
        if let Some(begin) = begin {
            let time = begin.elapsed();
            self.timed += 1;
            self.sum += time;
            self.longest = self.longest.max(time);
        }
    }

    /// All calls together, in seconds: the mean of those that were timed, for all.
    pub fn seconds(&self) -> f64 {
        if self.timed == 0 {
            return 0.0;
        }
        self.sum.as_secs_f64() / self.timed as f64 * self.calls as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_calls_are_sampled_and_long_ones_all_timed() {
        let mut times = HookTimes::default();
        let measured = (0..1600).filter(|_| times.begin().is_some()).count();
        assert_eq!(measured as u64, FIRST + 1600 / SAMPLE - 1);
        times.longest = SHORT;
        assert!((0..100).all(|_| times.begin().is_some()));
        assert_eq!(times.calls, 1700);
        times.timed = 10;
        times.sum = Duration::from_secs(1);
        assert!((times.seconds() - 170.0).abs() < 1e-9);
    }
}
