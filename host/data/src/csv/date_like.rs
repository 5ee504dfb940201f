//! Recognition of dates and times by their form.

/// Abbreviations of the months, as they begin in English and in what spreadsheets export.
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

/// Whether a text is a date, a time of day, or both, in one of the usual forms: `2024-01-31`, `2024/1/31 17:05:00Z`,
/// `31.01.2024`, `1/31/24`, `31 Jan 2024`, `17:05`.
pub(super) fn is_date(text: &str) -> bool {
    const LONGEST: usize = 40;
    if text.len() > LONGEST || !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return false;
    }
    let mut parts = text.splitn(2, ['T', 't']);
    let (date, time) = match (parts.next(), parts.next()) {
        // `Oct` and `Sat` have a `t`, too.
        (Some(date), Some(time)) if is_day(date) => (date, time),
        _ => match text.split_once(' ').filter(|(date, _)| is_day(date)) {
            Some(parts) => parts,
            None => (text, ""),
        },
    };
    if is_day(date) {
        return time.is_empty() || is_time(time);
    }
    is_time(text) || is_with_month(text)
}

/// Whether a text is three numbers with one sign between them that can be day, month and year.
fn is_day(text: &str) -> bool {
    ['-', '/', '.'].into_iter().any(|sign| {
        let parts: Vec<&str> = text.split(sign).collect();
        let numbers: Option<Vec<u32>> = parts.iter().map(|part| digits(part)).collect();
        match numbers.as_deref() {
            Some([year, month, day]) if parts.first().is_some_and(|part| part.len() == 4) => {
                is_year(*year) && is_month(*month) && is_month_day(*day)
            }
            Some([first, second, _])
                if parts
                    .last()
                    .is_some_and(|year| [2, 4].contains(&year.len())) =>
            {
                let european = is_month_day(*first) && is_month(*second);
                european || (is_month(*first) && is_month_day(*second))
            }
            _ => false,
        }
    })
}

/// Whether a text is hours and minutes, with or without seconds and a time zone.
fn is_time(text: &str) -> bool {
    let end = text.find([' ', 'Z', 'z', '+', '-', 'A', 'P', 'a', 'p']);
    let (clock, zone) = text.split_at(end.unwrap_or(text.len()));
    let mut parts = clock.split(':');
    let whole =
        |part: Option<&str>, most| part.and_then(digits).is_some_and(|number| number <= most);
    let is_clock = whole(parts.next(), 23) && whole(parts.next(), 59);
    let seconds = parts.next().map(|part| part.split('.').next());
    is_clock
        && seconds.is_none_or(|seconds| whole(seconds, 60))
        && parts.next().is_none()
        && zone.len() <= 10
}

/// Whether a text has a month's name, a day and a year, as in `Jan 31, 2024`.
fn is_with_month(text: &str) -> bool {
    let words: Vec<&str> = text
        .split([' ', '-', ',', '.', '/'])
        .filter(|word| !word.is_empty())
        .collect();
    let is_name = |word: &&&str| {
        let start = word.get(..3).map(str::to_ascii_lowercase);
        start.is_some_and(|start| MONTHS.contains(&start.as_str()))
    };
    let numbers: Vec<u32> = words.iter().filter_map(|word| digits(word)).collect();
    words.iter().filter(is_name).count() == 1
        && (words.len() == 3 || words.len() == 2)
        && numbers.len() + 1 == words.len()
        && numbers
            .iter()
            .any(|number| is_month_day(*number) || is_year(*number))
}

fn digits(text: &str) -> Option<u32> {
    let is_plain = !text.is_empty() && text.len() <= 4 && text.bytes().all(|c| c.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

fn is_year(number: u32) -> bool {
    (1000..=2999).contains(&number)
}

fn is_month(number: u32) -> bool {
    (1..=12).contains(&number)
}

fn is_month_day(number: u32) -> bool {
    (1..=31).contains(&number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_forms_are_dates() {
        for text in [
            "2024-01-31",
            "2024/1/31",
            "2024-01-31T17:05:00Z",
            "2024-01-31 17:05:00.123+02:00",
            "31.01.2024",
            "1/31/24",
            "31/1/2024 5:05 PM",
            "31 Jan 2024",
            "October 3, 2020",
            "Sep-21",
            "17:05",
            "17:05:59",
        ] {
            assert!(is_date(text), "{text}");
        }
    }

    #[test]
    fn other_texts_and_numbers_are_none() {
        for text in [
            "",
            "1.5",
            "2024",
            "192.168.0.1",
            "1-2",
            "3.4.5",
            "male",
            "Mar",
            "A 12",
            "13/13/2024",
            "2024-13-01",
            "25:00",
            "1:2:3:4",
            "1.0.0",
            "€",
            "Maybe 3 times",
        ] {
            assert!(!is_date(text), "{text}");
        }
    }
}
