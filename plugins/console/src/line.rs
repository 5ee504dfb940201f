//! The text of one line: `epoch 2/5  batch  50/141  loss 0.3412  lr 1.0000e-3  eta 0:00:12`.

use std::fmt::{self, Display, Write};
use std::time::Duration;

/// A line under construction: items separated by two spaces.
pub(crate) struct Line {
    text: String,
    digits: u8,
    tables: bool,
}

impl Line {
    /// Creates an empty line whose numbers get `digits` decimal places.
    pub(crate) fn new(digits: u8) -> Self {
        let text = String::with_capacity(128);
        Line {
            text,
            digits,
            tables: false,
        }
    }

    /// Sets whether metrics that are entries of tables are included.
    pub(crate) fn with_tables(self, tables: bool) -> Self {
        Line { tables, ..self }
    }

    /// Appends `item`.
    pub(crate) fn item(mut self, item: impl Display) -> Self {
        if !self.text.is_empty() {
            self.text.push_str("  ");
        }
        // Writing to a string can't fail.
        let _ = write!(self.text, "{item}");
        self
    }

    /// Appends a progress count, `batch  50/141`, padded to a constant width.
    pub(crate) fn progress(self, name: &str, done: u64, all: u64) -> Self {
        let all = all.to_string();
        let width = all.len();
        self.item(format_args!("{name} {done:width$}/{all}"))
    }

    /// Appends a metric with its name.
    pub(crate) fn metric(self, name: &str, value: f64) -> Self {
        let digits = self.digits;
        self.item(format_args!("{name} {}", Number { value, digits }))
    }

    /// Appends all metrics except `except`, and except entries of tables unless requested.
    pub(crate) fn metrics<'name>(
        self,
        metrics: impl Iterator<Item = (&'name str, f64)>,
        except: Option<&str>,
    ) -> Self {
        let tables = self.tables;
        metrics
            .filter(|&(name, _)| Some(name) != except && (tables || !name.contains('/')))
            .fold(self, |line, (name, value)| line.metric(name, value))
    }

    /// Appends the learning rate in scientific notation: schedules vary it by orders of magnitude.
    pub(crate) fn learning_rate(self, value: f64) -> Self {
        let digits = usize::from(self.digits);
        self.item(format_args!("lr {value:.digits$e}"))
    }

    /// Appends a speed, if there is one.
    pub(crate) fn speed(self, samples_per_second: Option<f64>) -> Self {
        match samples_per_second {
            Some(speed) => self.item(format_args!("{speed:.0} samples/s")),
            None => self,
        }
    }

    /// Appends the estimated time left, if there is one.
    pub(crate) fn remaining(self, remaining: Option<Duration>) -> Self {
        match remaining {
            Some(remaining) => self.item(format_args!("eta {}", Clock(remaining))),
            None => self,
        }
    }
}

impl Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A number with decimal places; in scientific notation if fewer than two significant digits would
/// remain, or from a million on.
struct Number {
    value: f64,
    digits: u8,
}

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        let size = value.abs();
        let too_small = size > 0.0 && size < 10_f64.powi(1 - i32::from(self.digits));
        let digits = usize::from(self.digits);
        if size.is_finite() && (too_small || size >= 1e6) {
            write!(f, "{value:.digits$e}")
        } else {
            write!(f, "{value:.digits$}")
        }
    }
}

/// A time as `h:mm:ss`, rounded to seconds.
pub(crate) struct Clock(pub(crate) Duration);

impl Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64().round() as u64;
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        write!(f, "{hours}:{minutes:02}:{:02}", seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_reads_as_one_line() {
        let metrics = [("loss", 0.5), ("accuracy", 0.89314), ("confusion/0/0", 3.0)];
        let line = Line::new(4)
            .progress("epoch", 2, 10)
            .progress("batch", 50, 141)
            .metric("loss", 0.341_25)
            .metrics(metrics.into_iter(), Some("loss"))
            .learning_rate(0.001)
            .speed(Some(12_345.6))
            .remaining(Some(Duration::from_millis(3_725_600)));
        assert_eq!(
            line.to_string(),
            "epoch  2/10  batch  50/141  loss 0.3412  accuracy 0.8931  lr 1.0000e-3  \
             12346 samples/s  eta 1:02:06"
        );
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let line = Line::new(4).item("val").speed(None).remaining(None);
        assert_eq!(line.to_string(), "val");
    }

    #[test]
    fn numbers_keep_at_least_two_digits() {
        let cases = [
            (0.0, 4, "0.0000"),
            (0.25, 4, "0.2500"),
            (-0.001, 4, "-0.0010"),
            (0.000_999, 4, "9.9900e-4"),
            (1_234_567.0, 2, "1.23e6"),
            (2.5, 0, "2e0"),
            (25.0, 0, "25"),
            (f64::NAN, 4, "NaN"),
            (f64::INFINITY, 4, "inf"),
        ];
        for (value, digits, expected) in cases {
            assert_eq!(Number { value, digits }.to_string(), expected);
        }
    }

    #[test]
    fn times_read_as_a_clock() {
        let cases = [(0.4, "0:00:00"), (59.5, "0:01:00"), (90_061.0, "25:01:01")];
        for (seconds, expected) in cases {
            let time = Duration::from_secs_f64(seconds);
            assert_eq!(Clock(time).to_string(), expected);
        }
    }
}
