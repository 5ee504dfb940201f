//! Waits for the interpreter's lock: a hook's own threads may make each of its calls late.

use std::time::{Duration, Instant};

use super::gil::Gil;

/// Calls of which one is timed.
const SAMPLED: u32 = 8;
/// A wait that another thread's computing explains, and nothing else.
const LONG: Duration = Duration::from_micros(300);
/// Long waits in timed calls after which there is a warning.
const MANY: u32 = 4;

/// What a hook's calls waited for the lock.
#[derive(Debug, Default)]
pub(super) struct Waits {
    calls: u32,
    long: u32,
}

impl Waits {
    /// Takes the lock for a call; the second value is whether it is time for a warning, once.
    pub(super) fn take(&mut self) -> (Option<Gil>, bool) {
        self.calls = self.calls.wrapping_add(1);
        if !self.calls.is_multiple_of(SAMPLED) {
            return (Gil::take(), false);
        }
        let begun = Instant::now();
        let gil = Gil::take();
        (gil, self.note(begun.elapsed()))
    }

    fn note(&mut self, wait: Duration) -> bool {
        if wait < LONG || self.long >= MANY {
            return false;
        }
        self.long += 1;
        self.long == MANY
    }
}

/// The warning.
pub(super) const WARNING: &str = "calls wait for Python threads that compute in the background: give the hook a process of \
     its own with `\"isolation\": \"process\"` in its entry, or lower `switch_interval`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_long_waits_are_warned_of_once() {
        let mut waits = Waits::default();
        let long = Duration::from_millis(1);
        let warnings = (0..100).filter(|_| waits.note(long)).count();
        assert_eq!(warnings, 1);
        let mut waits = Waits::default();
        assert!((0..100).all(|_| !waits.note(Duration::from_micros(5))));
    }
}
