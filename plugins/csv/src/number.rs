//! Formatting of numbers as text that other programs read.

/// Formats a number with the given significant digits, or with as few as reproduce it exactly.
pub(crate) fn number(value: f64, digits: Option<u8>) -> String {
    let size = value.abs();
    let rounded = match digits {
        Some(digits) if value.fract() != 0.0 => round(value, digits),
        _ => value,
    };
    if size != 0.0 && size.is_finite() && !(1e-5..1e16).contains(&size) {
        format!("{rounded:e}")
    } else {
        format!("{rounded}")
    }
}

fn round(value: f64, digits: u8) -> f64 {
    let places = usize::from(digits.saturating_sub(1));
    let text = format!("{value:.places$e}");
    text.parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_again_as_they_were() {
        let third = 1.0 / 3.0;
        for value in [
            0.1,
            third,
            1e-300,
            -2.5e17,
            5e-324,
            0.1 + 0.2,
            f64::MAX,
            0.0,
            f64::INFINITY,
        ] {
            assert_eq!(number(value, None).parse(), Ok(value));
        }
        assert_eq!(number(f64::NAN, None), "NaN");
        assert_eq!(number(1e-7, None), "1e-7");
    }

    #[test]
    fn digits_are_significant_ones() {
        let cases = [
            (1.0 / 3.0, 4, "0.3333"),
            (0.000_123_456, 3, "0.000123"),
            (1.234_56e-9, 3, "1.23e-9"),
            (99.96, 3, "100"),
            (1234.5, 2, "1200"),
            (12_345.0, 2, "12345"),
        ];
        for (value, digits, expected) in cases {
            assert_eq!(number(value, Some(digits)), expected);
        }
    }
}
