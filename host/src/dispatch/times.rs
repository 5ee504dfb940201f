//! How long hooks take, at next to no cost: calls that turn out to be short are timed in samples.

use std::time::{Duration, Instant};

/// The first calls of each pass are all timed.
const FIRST: u64 = 16;

/// Then one in so many, as long as calls are short.
const SAMPLE: u64 = 128;

/// A call of this length is not short: reading the clock is nothing beside it.
const SHORT: Duration = Duration::from_micros(50);

/// The times of a hook in one pass over a phase's data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HookTimes {
    /// How often it was called.
    pub calls: u64,
    /// The next call that is timed, counted from 0.
    next: u64,
    timed: u32,
    sum: Duration,
    /// The longest of the calls that were timed.
    pub longest: Duration,
}

impl HookTimes {
    /// A call begins; the time, if this one is timed.
    #[inline]
    pub(super) fn begin(&mut self) -> Option<Instant> {
        let is_timed = self.calls == self.next;
        self.calls += 1;
        is_timed.then(Instant::now)
    }

    /// The call is over.
    #[inline]
    pub(super) fn end(&mut self, begin: Option<Instant>) {
        if let Some(begin) = begin {
            self.add(begin.elapsed());
        }
    }

    fn add(&mut self, time: Duration) {
        self.timed += 1;
        self.sum += time;
        self.longest = self.longest.max(time);
        // By the mean: a single interruption by the system makes no long hook.
        let is_long = self.sum >= SHORT.saturating_mul(self.timed);
        let step = if is_long || self.calls < FIRST {
            1
        } else {
            SAMPLE
        };
        self.next = self.calls - 1 + step;
    }

    /// All calls together, in seconds: the mean of those that were timed, for all.
    pub fn seconds(&self) -> f64 {
        if self.timed == 0 {
            return 0.0;
        }
        self.sum.as_secs_f64() / f64::from(self.timed) * self.calls as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of the next calls are timed, if each takes so long.
    fn timed(times: &mut HookTimes, calls: u64, each: Duration) -> u64 {
        let mut count = 0;
        for _ in 0..calls {
            if times.begin().is_some() {
                count += 1;
                times.add(each);
            }
        }
        count
    }

    #[test]
    fn short_calls_are_sampled_and_long_ones_all_timed() {
        let mut short = HookTimes::default();
        let count = timed(&mut short, 16 + 1280, Duration::from_nanos(100));
        assert_eq!(count, FIRST + 10);
        assert!((short.seconds() - 1296.0 * 100e-9).abs() < 1e-12);
        let mut long = HookTimes::default();
        assert_eq!(timed(&mut long, 100, Duration::from_millis(1)), 100);
        assert_eq!(long.longest, Duration::from_millis(1));
        assert!((long.seconds() - 0.1).abs() < 1e-9);
        let nothing = HookTimes::default();
        assert!(nothing.seconds().abs() < f64::EPSILON);
    }
}
