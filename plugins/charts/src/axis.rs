//! Ranges and tick labels of axes.

use std::ops::Range;

/// Returns the range that shows all of `values`: padded by a twentieth, never empty.
///
/// Values that are not finite are left out, and on a logarithmic axis those that are not
/// positive. Without any value it is 0 to 1 (or 1 to 10).
pub(crate) fn range(values: impl Iterator<Item = f64>, log: bool, pad: bool) -> Range<f64> {
    let shown = values.filter(|value| shows(*value, log));
    let (low, high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return if log { 1.0..10.0 } else { 0.0..1.0 };
    }
    if log {
        // In decades; at least one, so that the axis has ticks at both ends.
        let (low, high) = (low.log10(), high.log10());
        let missing = (1.0 - (high - low)).max(0.0) / 2.0;
        let (low, high) = (low - missing, high + missing);
        let padding = if pad { (high - low) / 20.0 } else { 0.0 };
        return 10_f64.powf((low - padding).max(-300.0))..10_f64.powf((high + padding).min(300.0));
    }
    // Wider than the spacing of floats of this size; otherwise ticks would coincide.
    let least = (low.abs().max(high.abs()) * 1e-6).max(1e-12);
    if high - low < least {
        let half = if low == 0.0 {
            1.0
        } else {
            (low.abs() * 0.1).max(least)
        };
        return low - half..high + half;
    }
    // Halves first: the difference of two huge numbers may overflow.
    let padding = if pad {
        (high / 2.0 - low / 2.0) / 10.0
    } else {
        0.0
    };
    (low - padding).max(-1e300)..(high + padding).min(1e300)
}

/// Returns the maximum number of ticks: for integer values, such as epochs, no tick lies between two of
/// them.
pub(crate) fn ticks(values: impl Iterator<Item = f64>) -> usize {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.filter(|value| value.is_finite()) {
        if value.fract() != 0.0 {
            return MOST_TICKS;
        }
        (low, high) = (low.min(value), high.max(value));
    }
    if low < high {
        (high - low + 1.0).min(MOST_TICKS as f64) as usize
    } else {
        MOST_TICKS
    }
}

/// Maximum number of ticks on an axis.
const MOST_TICKS: usize = 11;

/// Returns whether a value can be shown on the axis.
pub(crate) fn shows(value: f64, log: bool) -> bool {
    value.is_finite() && value.abs() <= 1e300 && (!log || value >= 1e-300)
}

/// Formats a tick of a linear axis of this length, 0 for a logarithmic one: a tick at zero may be a rounding error away
/// from it.
pub(crate) fn tick(value: f64, span: f64) -> String {
    number(if value.abs() < span.abs() * 1e-9 {
        0.0
    } else {
        value
    })
}

/// Formats a number briefly: decimals up to the fourth significant digit, scientific notation if it is very
/// large or small.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size < f64::MIN_POSITIVE {
        return "0".to_owned();
    }
    if !(1e-3..1e6).contains(&size) {
        let text = format!("{value:.2e}");
        return match text.split_once('e') {
            Some((digits, power)) => format!("{}e{power}", trim(digits)),
            None => text,
        };
    }
    let decimals = (3 - size.log10().floor() as i32).clamp(0, 6);
    trim(&format!("{value:.*}", decimals as usize)).to_owned()
}

/// Removes trailing zeros of decimals.
fn trim(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts: Vec<_> = [
            0.0, 0.1, 1.0, 2.5, -0.3, 1234.0, 123_456.0, 1e7, 2.5e-5, 0.002,
        ]
        .into_iter()
        .map(number)
        .collect();
        let expected = [
            "0", "0.1", "1", "2.5", "-0.3", "1234", "123456", "1e7", "2.5e-5", "0.002",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn whole_numbers_have_no_ticks_between_them() {
        let count = |values: &[f64]| ticks(values.iter().copied());
        assert_eq!(count(&[1.0, 4.0, 2.0, f64::NAN]), 4);
        assert_eq!(count(&[0.0, 1.0]), 2);
        assert_eq!(count(&[0.0, 1e300]), MOST_TICKS);
        for values in [&[][..], &[3.0], &[0.5, 2.0]] {
            assert_eq!(count(values), MOST_TICKS);
        }
    }

    #[test]
    fn ranges_are_never_empty_and_always_finite() {
        let cases: [&[f64]; 7] = [
            &[],
            &[f64::NAN, f64::INFINITY],
            &[0.0],
            &[5.0, 5.0],
            &[-f64::MAX, f64::MAX],
            &[1e-320, 1.0],
            &[1.0, 1.0 + f64::EPSILON],
        ];
        for values in cases {
            for log in [false, true] {
                let range = range(values.iter().copied(), log, true);
                assert!(range.start < range.end, "{values:?}, log {log}: {range:?}");
                assert!(
                    range.start.is_finite() && range.end.is_finite(),
                    "{values:?}"
                );
                assert!(!log || range.start > 0.0, "{values:?}: {range:?}");
            }
        }
        let padded = range([0.0, 10.0].into_iter(), false, true);
        assert_eq!(padded, -0.5..10.5);
    }
}
