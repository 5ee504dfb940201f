//! Times of hooks' calls at almost no cost: short calls are timed by sampling.

use std::time::{Duration, Instant};

use super::memory;
use crate::bridge::CopyCosts;
use sconce_ops::device::waited;

/// How many calls at the start of each pass are all timed.
const FIRST: u64 = 16;

/// After that, one in this many is timed while calls are short.
const SAMPLE: u64 = 128;

/// One in this many of the samples of short calls is followed by checks that make system calls: one of those takes a
/// microsecond, a hundred times as long as a short call.
const CHECKED: u32 = 16;

/// Calls at least this long are not short: reading the clock costs nothing in comparison.
const SHORT: Duration = Duration::from_micros(50);

/// Times of a hook in one pass over a phase's data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HookTimes {
    /// Number of calls.
    pub calls: u64,
    /// Index of the next call to time, from 0.
    next: u64,
    timed: u32,
    sum: Duration,
    /// Longest of the timed calls.
    pub longest: Duration,
    /// Number of calls whose memory was measured: the first ones of each pass.
    weighed: u32,
    /// Net growth of memory in those calls, in bytes.
    growth: i64,
    /// Copies of a device's tensors that were made for it.
    pub copies: CopyCosts,
}

/// What is read at the start of a timed call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    time: Instant,
    /// Time waited for a GPU so far. It computes meanwhile what the run asked for: that is not a cost of the hook that waits.
    waited: Duration,
    memory: Option<i64>,
}

impl HookTimes {
    /// Counts a call; returns whether it is timed.
    #[inline]
    pub(super) fn begin(&mut self) -> bool {
        let is_timed = self.calls == self.next;
        // Each call would pay for a check against an overflow, which is centuries away.
        self.calls = self.calls.wrapping_add(1);
        is_timed
    }

    /// Whether the memory of the current call is measured too, if it is timed.
    pub(super) fn is_first(&self) -> bool {
        self.calls <= FIRST
    }

    /// Ends a timed call; returns whether to make checks that take a microsecond.
    pub(super) fn end(&mut self, begin: Begin) -> bool {
        let waited = waited().saturating_sub(begin.waited);
        let is_thorough = self.add(begin.time.elapsed().saturating_sub(waited));
        if let Some(before) = begin.memory
            && let Some(after) = memory::in_use()
        {
            self.weighed += 1;
            self.growth += after - before;
        }
        is_thorough
    }

    /// Adds a timed call; returns whether checks are due that make system calls.
    fn add(&mut self, time: Duration) -> bool {
        self.timed += 1;
        self.sum += time;
        self.longest = self.longest.max(time);
        // By the mean of all but the longest: an interruption by the system, of milliseconds, does not make a hook's calls long.
        let is_long = self.sum.saturating_sub(self.longest) >= SHORT.saturating_mul(self.timed - 1);
        let step = if is_long || self.calls < FIRST {
            1
        } else {
            SAMPLE
        };
        self.next = self.calls - 1 + step;
        step == 1 || self.timed.is_multiple_of(CHECKED)
    }

    /// Estimated total of all calls, in seconds: the mean of the timed ones times the number of
    /// calls.
    pub fn seconds(&self) -> f64 {
        if self.timed == 0 {
            return 0.0;
        }
        self.sum.as_secs_f64() / f64::from(self.timed) * self.calls as f64
    }

    /// Estimated net growth of memory in all calls, in bytes: the mean of the measured ones times
    /// the number of calls.
    pub fn growth(&self) -> f64 {
        if self.weighed == 0 {
            return 0.0;
        }
        self.growth as f64 / f64::from(self.weighed) * self.calls as f64
    }
}

impl Begin {
    /// Reads the clock.
    #[cold]
    pub(super) fn read() -> Begin {
        Begin {
            memory: None,
            waited: waited(),
            time: Instant::now(),
        }
    }

    /// Reads the clock and the memory in use, which takes a microsecond or more.
    #[cold]
    pub(super) fn read_all() -> Begin {
        Begin {
            memory: memory::in_use(),
            waited: waited(),
            time: Instant::now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of the next calls are timed if each takes `each`.
    fn timed(times: &mut HookTimes, calls: u64, each: Duration) -> u64 {
        let mut count = 0;
        for _ in 0..calls {
            if times.begin() {
                count += 1;
                times.add(each);
            }
        }
        count
    }

    #[test]
    fn slow_checks_follow_the_first_calls_long_ones_and_some_of_the_others() {
        let checked = |each: Duration| {
            let mut times = HookTimes::default();
            let calls = 0..16 + 32 * SAMPLE;
            calls.filter(|_| times.begin() && times.add(each)).count()
        };
        assert_eq!(checked(Duration::from_nanos(100)), 16 + 2);
        assert_eq!(checked(Duration::from_millis(1)), 16 + 32 * 128);
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

    #[test]
    fn an_interruption_by_the_system_does_not_make_short_calls_long() {
        for interrupted in [1, 9, 17] {
            let mut times = HookTimes::default();
            let mut count = 0;
            for _ in 0..16 + 1280 {
                if times.begin() {
                    count += 1;
                    times.add(if count == interrupted {
                        Duration::from_millis(100)
                    } else {
                        Duration::from_nanos(100)
                    });
                }
            }
            assert_eq!(count, FIRST + 10, "in timed call {interrupted}");
            assert_eq!(times.longest, Duration::from_millis(100));
        }
    }
}
