//! Measured values formatted for people.

/// Formats a value with `digits` decimal places. Scientific notation is used where fewer than two
/// significant digits would be left, and from a million on: a small loss is not `0.0000`, a diverged one
/// not 36 digits.
pub(in crate::cli) fn shown(value: f64, digits: usize) -> String {
    let size = value.abs();
    let least = 10_f64.powi(1 - i32::try_from(digits).unwrap_or(i32::MAX));
    if size.is_finite() && size != 0.0 && (size < least || size >= 1e6) {
        format!("{value:.digits$e}")
    } else {
        // Adding zero removes the sign of a negative zero.
        format!("{:.digits$}", value + 0.0)
    }
}

/// Formats a value with all its digits, in scientific notation if very large or small.
pub(in crate::cli) fn exact(value: f64) -> String {
    let size = value.abs();
    if size.is_finite() && size != 0.0 && !(1e-5..1e16).contains(&size) {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits_and_stay_short() {
        for (value, expected) in [
            (0.25, "0.2500"),
            (7e-6, "7.0000e-6"),
            (-0.0, "0.0000"),
            (0.0, "0.0000"),
            (-0.001, "-0.0010"),
            (123_456.0, "123456.0000"),
            (3.2e35, "3.2000e35"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(shown(value, 4), expected);
        }
        for value in [0.1, 7e-6, 1.0, 1.0 / 3.0, 3.2e35, -1e-300] {
            let text = exact(value);
            assert_eq!(text.parse(), Ok(value));
            assert!(text.len() < 24, "{text}");
        }
    }
}
