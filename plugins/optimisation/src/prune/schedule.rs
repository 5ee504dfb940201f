//! Growth of the pruned fraction.

use sconce_plugin_api::prelude::*;

/// How the fraction grows from the first pruning to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Schedule {
    /// The full amount at once.
    Constant,
    /// Linear.
    Linear,
    /// Fast at first, slower towards the end (Zhu and Gupta 2017, arXiv:1710.01878).
    Cubic,
}

impl Schedule {
    /// Returns the fraction pruned after `done` steps: `from` at step `begin`, `to` at step `end`.
    pub(crate) fn share(self, (from, to): (f64, f64), (begin, end): (u64, u64), done: u64) -> f64 {
        let way = match end.saturating_sub(begin) {
            0 => 1.0,
            steps => (done.saturating_sub(begin) as f64 / steps as f64).min(1.0),
        };
        match self {
            Schedule::Constant => to,
            Schedule::Linear => from + (to - from) * way,
            Schedule::Cubic => to + (from - to) * (1.0 - way).powi(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_go_from_the_first_to_the_last() {
        let share = |schedule: Schedule, done| schedule.share((0.2, 0.8), (10, 30), done);
        for (schedule, at_half) in [
            (Schedule::Constant, 0.8),
            (Schedule::Linear, 0.5),
            (Schedule::Cubic, 0.725),
        ] {
            assert!((share(schedule, 20) - at_half).abs() < 1e-12);
            assert!((share(schedule, 30) - 0.8).abs() < 1e-12);
            assert!((share(schedule, 99) - 0.8).abs() < 1e-12);
        }
        assert!((share(Schedule::Cubic, 10) - 0.2).abs() < 1e-12);
        assert!((Schedule::Linear.share((0.0, 0.5), (3, 3), 3) - 0.5).abs() < 1e-12);
    }
}
