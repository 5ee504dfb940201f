//! Formats numbers and durations for people.

use crate::thousands::grouped;

/// Formats seconds as `1:02:03`.
pub(super) fn clock(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "–".to_owned();
    }
    let all = seconds.max(0.0) as u64;
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    format!("{hours}:{minutes:02}:{seconds:02}")
}

/// Formats a duration in a suitable unit.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 600.0 => clock(s),
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s if s > 0.0 => format!("{:.1} µs", s * 1e6),
        _ => "0".to_owned(),
    }
}

/// Formats a metric's value.
pub(super) fn value(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e5).contains(&size) {
        return format!("{value:.2e}");
    }
    format!("{value:.4}")
}

/// Formats an amount per second.
pub(super) fn pace(per_second: f64) -> String {
    if per_second >= 100.0 {
        return grouped(per_second.round() as u64);
    }
    format!("{per_second:.1}")
}

/// Formats epochs: whole numbers as such, others with one decimal place.
pub(super) fn epochs(epochs: f64) -> String {
    if (epochs - epochs.round()).abs() < 1e-6 {
        return grouped(epochs.round() as u64);
    }
    format!("{epochs:.1}")
}

/// Truncates a text to a number of columns, with an ellipsis if something is cut off.
pub(super) fn fitting(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(columns.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(clock(3723.9), "1:02:03");
        assert_eq!(clock(f64::NAN), "–");
        let times = [0.0, 2.5e-6, 0.0123, 2.0, 754.0].map(time);
        assert_eq!(times, ["0", "2.5 µs", "12.3 ms", "2.0 s", "0:12:34"]);
        let values = [0.25, 0.0, 12_345.678, 2.5e-5, f64::INFINITY].map(value);
        assert_eq!(values, ["0.2500", "0.0000", "12345.6780", "2.50e-5", "inf"]);
        assert_eq!(pace(1_234_567.0), "1,234,567");
        assert_eq!([12.34, 1234.5].map(pace), ["12.3", "1,235"]);
        assert_eq!([3.0, 2.5].map(epochs), ["3", "2.5"]);
        assert_eq!(fitting("accuracy", 5), "accu…");
    }
}
