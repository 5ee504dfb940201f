//! Mean, median and range of durations.

use std::fmt;

/// Durations in seconds.
#[derive(Debug, Default)]
pub(crate) struct Times {
    times: Vec<f64>,
    /// Scratch space for finding the median.
    sorted: Vec<f64>,
}

/// Statistics of a set of durations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) count: usize,
    pub(crate) mean: f64,
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Times {
    pub(crate) fn push(&mut self, seconds: f64) {
        self.times.push(seconds);
    }

    pub(crate) fn clear(&mut self) {
        self.times.clear();
    }

    /// Statistics of the durations; `None` if there are none. The median of an even number of
    /// values is the mean of the two in the middle.
    pub(crate) fn statistics(&mut self) -> Option<Statistics> {
        let count = self.times.len();
        if count == 0 {
            return None;
        }
        self.sorted.clone_from(&self.times);
        self.sorted.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| self.sorted.get(index).copied().unwrap_or(f64::NAN);
        Some(Statistics {
            count,
            mean: self.times.iter().sum::<f64>() / count as f64,
            median: f64::midpoint(at((count - 1) / 2), at(count / 2)),
            least: at(0),
            most: at(count - 1),
        })
    }
}

/// Displays a duration with three significant digits and a unit.
pub(crate) struct Seconds(pub(crate) f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self.0.abs() {
            seconds if seconds >= 1.0 => (self.0, "s"),
            seconds if seconds >= 1e-3 => (self.0 * 1e3, "ms"),
            _ => (self.0 * 1e6, "µs"),
        };
        let digits = match number.abs() {
            number if number >= 100.0 => 0,
            number if number >= 10.0 => 1,
            _ => 2,
        };
        write!(f, "{number:.digits$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_the_definition() {
        let mut times = Times::default();
        assert_eq!(times.statistics(), None);
        for time in [4.0, 1.0, 3.0, 2.0] {
            times.push(time);
        }
        let expected = Statistics {
            count: 4,
            mean: 2.5,
            median: 2.5,
            least: 1.0,
            most: 4.0,
        };
        assert_eq!(times.statistics(), Some(expected));
        times.push(10.0);
        let statistics = times.statistics().expect("some");
        assert!((statistics.median - 3.0).abs() < 1e-12 && (statistics.mean - 4.0).abs() < 1e-12);
        times.clear();
        assert_eq!(times.statistics(), None);
    }

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let texts = [12.345, 1.0, 0.1234, 0.0012, 45.6e-6, 7e-9].map(|s| Seconds(s).to_string());
        let expected = [
            "12.3 s", "1.00 s", "123 ms", "1.20 ms", "45.6 µs", "0.01 µs",
        ];
        assert_eq!(texts, expected);
    }
}
