//! Which iterations are traced, after `torch.profiler.schedule`.

use sconce_plugin_api::prelude::*;

/// When to trace: after `skip_first` iterations come cycles of `wait`, `warm_up` and `active` ones.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Schedule {
    /// Training iterations before the first cycle. Default 10.
    pub(crate) skip_first: u64,
    /// Iterations at the start of a cycle in which the hook does nothing. Default 0.
    pub(crate) wait: u64,
    /// The cycle's next iterations: traced but discarded, since listening changes how they run.
    /// Default 1.
    pub(crate) warm_up: u64,
    /// The cycle's last iterations, which are written to its file; at least 1. Default 3.
    #[schemars(range(min = 1))]
    pub(crate) active: u64,
    /// Number of cycles; 0: until the end of training. Default 1.
    pub(crate) repeat: u64,
}

impl Default for Schedule {
    fn default() -> Self {
        Schedule {
            skip_first: 10,
            wait: 0,
            warm_up: 1,
            active: 3,
            repeat: 1,
        }
    }
}

/// The role of an iteration in the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The hook does nothing.
    Off,
    /// The hook listens, and discards what it sees.
    WarmUp,
    /// The iteration is traced.
    Active {
        /// Whether it is the last one of its cycle.
        is_last: bool,
    },
}

impl Schedule {
    /// Role of the iteration that follows this many finished ones in the whole run.
    pub(crate) fn step(self, finished: u64) -> Step {
        let Some(number) = finished.checked_sub(self.skip_first) else {
            return Step::Off;
        };
        let off = self.wait.saturating_add(self.warm_up);
        let length = off.saturating_add(self.active).max(1);
        let (cycle, place) = (number / length, number % length);
        if self.repeat > 0 && cycle >= self.repeat || place < self.wait {
            return Step::Off;
        }
        if place < off {
            return Step::WarmUp;
        }
        Step::Active {
            is_last: place == length - 1,
        }
    }

    /// Whether no further iteration is traced after this many finished ones.
    pub(crate) fn is_over(self, finished: u64) -> bool {
        let length = self
            .wait
            .saturating_add(self.warm_up)
            .saturating_add(self.active);
        let all = self
            .skip_first
            .saturating_add(length.saturating_mul(self.repeat));
        self.repeat > 0 && finished >= all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_wait_warm_up_and_are_active() {
        let schedule = Schedule {
            skip_first: 2,
            wait: 1,
            warm_up: 1,
            active: 2,
            repeat: 2,
        };
        let letters: String = (0..13)
            .map(|finished| match schedule.step(finished) {
                Step::Off => '.',
                Step::WarmUp => 'w',
                Step::Active { is_last: false } => 'a',
                Step::Active { is_last: true } => 'A',
            })
            .collect();
        assert_eq!(letters, "...waA.waA...");
        assert!(!schedule.is_over(9) && schedule.is_over(10));
        let endless = Schedule {
            repeat: 0,
            ..schedule
        };
        assert_eq!(
            endless.step(2 + 4 * 100 + 3),
            Step::Active { is_last: true }
        );
        assert!(!endless.is_over(u64::MAX));
    }
}
