//! Text for the page: escaped, with numbers formatted for reading.

use std::fmt::Write;
use std::time::Duration;

/// Escapes a text for the page, attributes included.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters are not allowed in the page, even as character references.
            other if other.is_control() && other != '\n' && other != '\t' => {
                escaped.push('\u{fffd}');
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// Escapes a text, and marks up what is between backticks as code.
pub(crate) fn escape_code(text: &str) -> String {
    let mut written = String::new();
    for (index, part) in text.split('`').enumerate() {
        let part = escape(part);
        if index % 2 == 1 {
            let _ = write!(written, "<code>{part}</code>");
        } else {
            written.push_str(&part);
        }
    }
    written
}

/// Formats a number with a readable number of digits.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return value.to_string();
    }
    if size > 0.0 && !(1e-4..1e6).contains(&size) {
        return format!("{value:.3e}");
    }
    let text = if size >= 100.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.5}")
    };
    let trimmed = text.trim_end_matches('0').trim_end_matches('.');
    trimmed.to_owned()
}

/// Formats an integer with its digits in groups of three.
pub(crate) fn whole(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a size in bytes with a unit.
pub(crate) fn bytes(count: u64) -> String {
    let mut size = count as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if size < 1000.0 {
            let digits = usize::from(unit != "B" && size < 100.0);
            return format!("{size:.digits$} {unit}");
        }
        size /= 1000.0;
    }
    format!("{size:.1} TB")
}

/// Formats a time as `1 h 02 min`, `3 min 04 s`, `5.6 s` or `78 ms`.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{:.0} ms", time.as_secs_f64() * 1000.0),
        1..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats a short time, given in seconds.
pub(crate) fn seconds(value: f64) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    match value {
        ..1e-3 => format!("{:.1} µs", value * 1e6),
        1e-3..1.0 => format!("{:.1} ms", value * 1e3),
        _ => time(Duration::try_from_secs_f64(value).unwrap_or_default()),
    }
}

/// Formats seconds since 1970 as `2026-11-21 14:05 UTC`.
pub(crate) fn moment(unix: u64) -> String {
    let (days, rest) = (unix / 86_400, unix % 86_400);
    // From days to a date, after Howard Hinnant's `civil_from_days`.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (rest / 3600, rest / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_taken_for_the_page() {
        assert_eq!(
            escape("<script>alert(\"x\" & 'y')</script>\u{1b}"),
            "&lt;script&gt;alert(&quot;x&quot; &amp; &#39;y&#39;)&lt;/script&gt;\u{fffd}"
        );
        assert_eq!(escape_code("back to `a<b`"), "back to <code>a&lt;b</code>");
    }

    #[test]
    fn numbers_are_as_people_read_them() {
        for (value, text) in [
            (0.912_345, "0.91234"),
            (0.5, "0.5"),
            (0.0, "0"),
            (123.456, "123.46"),
            (1e-5, "1.000e-5"),
            (-2.5e7, "-2.500e7"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(whole(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(
            (bytes(999), bytes(1_250_000)),
            ("999 B".to_owned(), "1.2 MB".to_owned())
        );
        let times = [0.0781, 5.61, 184.0, 3720.0].map(|s| time(Duration::from_secs_f64(s)));
        assert_eq!(times, ["78 ms", "5.6 s", "3 min 04 s", "1 h 02 min"]);
        // Expected values from `date -u -d @N`.
        assert_eq!(moment(1_795_269_900), "2026-11-21 14:05 UTC");
        assert_eq!(moment(951_782_400), "2000-02-29 00:00 UTC");
    }
}
