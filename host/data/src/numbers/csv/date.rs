//! Dates and times of day: their recognition in texts of the usual forms, and their parts.
//!
//! Times are taken as they are written: a time zone is read and not applied, since what repeats by day and week follows
//! the clock of the place.

use std::fmt;

use super::DateOrder;

/// Abbreviations of the months, as they begin in English and in what spreadsheets export.
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

/// Names of the days of the week, in their order.
pub(super) const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// A date, a time of day, or both, as a text has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WrittenDate {
    day: Option<WrittenDay>,
    /// Seconds since midnight.
    pub(super) time: Option<f64>,
}

/// A date as a text has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrittenDay {
    /// Its parts are known.
    Known(Date),
    /// `3/4/2024`, where the order of day and month has to be known.
    Either { first: u32, second: u32, year: u32 },
}

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Date {
    year: u32,
    month: u32,
    day: u32,
}

/// A point in time, or a time of day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment {
    date: Option<Date>,
    /// Seconds since midnight; 0 without a time.
    seconds: f64,
}

/// Days since the beginning of 1970, written as a date.
#[derive(Clone, Copy, Debug)]
pub(super) struct Day(pub(super) f64);

/// Whether a text is a date, a time of day, or both, in one of the usual forms: `2024-01-31`, `2024/1/31 17:05:00Z`,
/// `20240131T170500`, `31.01.2024`, `1/31/24`, `31 Jan 2024`, `17:05`.
pub(super) fn is_date(text: &str) -> bool {
    WrittenDate::parse(text).is_some()
}

impl WrittenDate {
    /// Reads a date or time; none if the text is neither.
    pub(super) fn parse(text: &str) -> Option<WrittenDate> {
        const LONGEST: usize = 40;
        if text.len() > LONGEST || !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return None;
        }
        if let Some(time) = time(text) {
            let time = Some(time);
            return Some(WrittenDate { day: None, time });
        }
        let alone = |day| WrittenDate {
            day: Some(day),
            time: None,
        };
        if let Some(day) = WrittenDay::parse(text) {
            return Some(alone(day));
        }
        // `Oct` and `Sat` have a `t`, too, and dates have spaces.
        let mut ends = text.match_indices(['T', 't', ' ']);
        ends.find_map(|(place, _)| {
            let (date, rest) = text.split_at_checked(place)?;
            let rest = rest.get(1..)?.trim_start();
            let time = time(rest).or_else(|| compact_time(rest))?;
            let day = WrittenDay::parse(date.trim_end_matches([' ', ',']))?;
            Some(WrittenDate {
                time: Some(time),
                ..alone(day)
            })
        })
    }

    /// Whether it has a day.
    pub(super) fn has_day(&self) -> bool {
        self.day.is_some()
    }

    /// Returns the only order of day and month in which its numbers are a date; none if both are, or if its form says
    /// which is which.
    pub(super) fn order(&self) -> Option<DateOrder> {
        if !self.needs_order() {
            return None;
        }
        match [DateOrder::DayFirst, DateOrder::MonthFirst].map(|order| self.moment(Some(order))) {
            [Some(_), None] => Some(DateOrder::DayFirst),
            [None, Some(_)] => Some(DateOrder::MonthFirst),
            _ => None,
        }
    }

    /// Whether the order of day and month has to be known.
    pub(super) fn needs_order(&self) -> bool {
        matches!(self.day, Some(WrittenDay::Either { .. }))
    }

    /// Returns the moment; none if there is no such day, or if its order isn't known.
    pub(super) fn moment(&self, order: Option<DateOrder>) -> Option<Moment> {
        let date = match self.day {
            None => None,
            Some(WrittenDay::Known(date)) => Some(date),
            Some(WrittenDay::Either {
                first,
                second,
                year,
            }) => Some(match order? {
                DateOrder::DayFirst => Date::new(year, second, first)?,
                DateOrder::MonthFirst => Date::new(year, first, second)?,
            }),
        };
        Some(Moment {
            date,
            seconds: self.time.unwrap_or(0.0),
        })
    }
}

impl WrittenDay {
    fn parse(text: &str) -> Option<WrittenDay> {
        ['-', '/', '.']
            .into_iter()
            .find_map(|sign| WrittenDay::of_numbers(text, sign))
            .or_else(|| of_month_name(text).map(WrittenDay::Known))
            .or_else(|| WrittenDay::compact(text))
    }

    /// Reads eight digits.
    fn compact(text: &str) -> Option<WrittenDay> {
        let (year, rest) = text.split_at_checked(4)?;
        let (month, day) = rest.split_at_checked(2).filter(|_| text.len() == 8)?;
        Date::new(digits(year)?, digits(month)?, digits(day)?).map(WrittenDay::Known)
    }

    /// Reads three numbers with one sign between them.
    fn of_numbers(text: &str, sign: char) -> Option<WrittenDay> {
        let mut parts = text.split(sign);
        let three = [parts.next()?, parts.next()?, parts.next()?];
        if parts.next().is_some() {
            return None;
        }
        let [a, b, c] = three.map(digits);
        let (a, b, c) = (a?, b?, c?);
        if three[0].len() == 4 {
            return Date::new(a, b, c).map(WrittenDay::Known);
        }
        if three[0].len() > 2 || three[1].len() > 2 {
            return None;
        }
        let (first, second, year) = (a, b, year(three[2])?);
        if sign == '.' {
            return Date::new(year, second, first).map(WrittenDay::Known);
        }
        let is_date =
            Date::new(year, second, first).is_some() || Date::new(year, first, second).is_some();
        is_date.then_some(WrittenDay::Either {
            first,
            second,
            year,
        })
    }
}

/// Reads a text with a month's name, a year, and a day or none, as in `Jan 31, 2024` and `Sep-21`, the month of a year.
fn of_month_name(text: &str) -> Option<Date> {
    let words = text.split([' ', '-', ',', '.', '/']);
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let is_name = |word: &&str| month(word).is_some();
    let place = words.iter().position(is_name)?;
    let month = month(words.get(place)?)?;
    match (&words[..], place) {
        ([day, _, last], 1) | ([_, day, last], 0) if day.len() <= 2 => {
            Date::new(year(last)?, month, digits(day)?)
        }
        ([first, _, day], 1) if first.len() == 4 => Date::new(year(first)?, month, digits(day)?),
        ([_, last], 0) => Date::new(year(last)?, month, 1),
        _ => None,
    }
}

/// Returns the month of a name or its abbreviation, from 1.
fn month(word: &str) -> Option<u32> {
    if !word.bytes().all(|c| c.is_ascii_alphabetic()) {
        return None;
    }
    let start = word.get(..3)?.to_ascii_lowercase();
    (1..)
        .zip(MONTHS)
        .find_map(|(number, name)| (name == start).then_some(number))
}

/// Reads a year of four digits, or of two: 69 to 99 are of the last century, as POSIX has it.
fn year(text: &str) -> Option<u32> {
    let number = digits(text)?;
    match text.len() {
        2 if number >= 69 => Some(1900 + number),
        2 => Some(2000 + number),
        4 => Some(number),
        _ => None,
    }
}

/// Reads hours and minutes, with or without seconds and a time zone, as the seconds since midnight.
fn time(text: &str) -> Option<f64> {
    let end = text.find([' ', 'Z', 'z', '+', '-', 'A', 'P', 'a', 'p']);
    let (clock, zone) = text.split_at_checked(end.unwrap_or(text.len()))?;
    let mut parts = clock.split(':');
    let hours = digits(parts.next()?).filter(|hours| *hours <= 23)?;
    let minutes = digits(parts.next()?).filter(|minutes| *minutes <= 59)?;
    let seconds = match parts.next() {
        None => 0.0,
        Some(seconds) => {
            let is_plain = seconds.bytes().all(|c| c.is_ascii_digit() || c == b'.');
            let seconds: f64 = seconds.parse().ok().filter(|_| is_plain)?;
            (seconds < 61.0).then_some(seconds)?
        }
    };
    if parts.next().is_some() || zone.len() > 10 {
        return None;
    }
    let zone = zone.trim().to_ascii_lowercase();
    let hours = match (zone.get(..2), hours) {
        (Some("am"), 12) => 0,
        (Some("pm"), 0..12) => hours + 12,
        _ => hours,
    };
    Some(f64::from(hours * 3600 + minutes * 60) + seconds)
}

/// Reads hours, minutes and seconds as six digits.
fn compact_time(text: &str) -> Option<f64> {
    let (clock, zone) = text.split_at_checked(6)?;
    let (hours, rest) = clock.split_at_checked(2)?;
    let (minutes, seconds) = rest.split_at_checked(2)?;
    digits(seconds)?;
    time(&format!("{hours}:{minutes}:{seconds}{zone}"))
}

fn digits(text: &str) -> Option<u32> {
    let is_plain = !text.is_empty() && text.len() <= 4 && text.bytes().all(|c| c.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

impl Date {
    /// None if there is no such day, or its year isn't from 1000 to 2999.
    fn new(year: u32, month: u32, day: u32) -> Option<Date> {
        let leap = u32::from(is_leap(year));
        let days = match month {
            2 => 28 + leap,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        let exists = (1000..=2999).contains(&year) && (1..=days).contains(&day);
        exists.then_some(Date { year, month, day })
    }

    /// Returns the days since the beginning of the year 0 of this calendar, extended backwards.
    fn number(self) -> i64 {
        let before = i64::from(self.year) - 1;
        let leaps = before / 4 - before / 100 + before / 400;
        366 + before * 365 + leaps + i64::from(self.place_in_year())
    }

    /// Returns the number of days of the year before it.
    fn place_in_year(self) -> u32 {
        let before = match self.month {
            1 => 0,
            2 => 31,
            // March to December: 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 days.
            month => 59 + u32::from(is_leap(self.year)) + (153 * (month - 3) + 2) / 5,
        };
        before + self.day - 1
    }
}

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

/// The beginning of 1970, as [`Date::number`].
const EPOCH: i64 = 719_528;

impl Moment {
    /// Returns the days since the beginning of 1970, with a fraction for the time of day; 0 to 1 for a time alone.
    pub(super) fn days(&self) -> f64 {
        let days = self.date.map_or(0, |date| date.number() - EPOCH);
        days as f64 + self.time_of_day()
    }

    /// Returns the part of the year before it, from 0 to below 1; 0 for a time alone.
    pub(super) fn place_in_year(&self) -> f64 {
        let Some(date) = self.date else { return 0.0 };
        let days = if is_leap(date.year) { 366.0 } else { 365.0 };
        ((f64::from(date.place_in_year()) + self.time_of_day()) / days).min(1.0)
    }

    /// Returns the day of the week, 0 for Monday; none for a time alone.
    pub(super) fn weekday(&self) -> Option<usize> {
        // The first day of 1970 was a Thursday.
        let days = self.date?.number() - EPOCH + 3;
        usize::try_from(days.rem_euclid(7)).ok()
    }

    /// Returns the part of the day before it, from 0 to 1.
    pub(super) fn time_of_day(&self) -> f64 {
        self.seconds / DAY
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0.floor() + EPOCH as f64;
        // The first year whose end is later; the years that can be read have four digits.
        let year = (number / 366.0).clamp(0.0, 9999.0) as u32;
        let found = (year..year + 32).find_map(|year| {
            let first = Date {
                year,
                month: 1,
                day: 1,
            };
            let place = number - first.number() as f64;
            let days = if is_leap(year) { 366.0 } else { 365.0 };
            (0.0..days).contains(&place).then_some((year, place as u32))
        });
        let day = found.and_then(|(year, place)| {
            let months = (1..=12).rev();
            let mut starts = months.map(|month| Date {
                year,
                month,
                day: 1,
            });
            let start = starts.find(|start| start.place_in_year() <= place)?;
            Some((year, start.month, place - start.place_in_year() + 1))
        });
        match day {
            Some((year, month, day)) => write!(f, "{year:04}-{month:02}-{day:02}"),
            None => write!(f, "{} days after 1970", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_forms_are_dates() {
        for (text, day, hours) in [
            ("2024-01-31", "2024-01-31", 0.0),
            ("2024/1/31", "2024-01-31", 0.0),
            ("2024-01-31T17:05:00Z", "2024-01-31", 17.0 + 5.0 / 60.0),
            (
                "2024-01-31 17:05:00.9+02:00",
                "2024-01-31",
                17.0 + 300.9 / 3600.0,
            ),
            ("20240131", "2024-01-31", 0.0),
            ("20240131T170500Z", "2024-01-31", 17.0 + 5.0 / 60.0),
            ("31.01.2024", "2024-01-31", 0.0),
            ("31.1.24 6:00", "2024-01-31", 6.0),
            ("1/31/24", "2024-01-31", 0.0),
            ("31/1/2024 5:05 PM", "2024-01-31", 17.0 + 5.0 / 60.0),
            ("12/12/71 12:00 am", "1971-12-12", 0.0),
            ("31 Jan 2024", "2024-01-31", 0.0),
            ("31-Jan-24", "2024-01-31", 0.0),
            ("October 3, 2020", "2020-10-03", 0.0),
            ("Oct 3, 2020, 18:00", "2020-10-03", 18.0),
            ("2020 October 3", "2020-10-03", 0.0),
            ("Sep-21", "2021-09-01", 0.0),
            ("17:05", "1970-01-01", 17.0 + 5.0 / 60.0),
            ("17:05:59", "1970-01-01", 17.0 + 359.0 / 3600.0),
        ] {
            let written = WrittenDate::parse(text).unwrap_or_else(|| panic!("{text}"));
            let order = written.order().or(Some(DateOrder::DayFirst));
            let moment = written.moment(order).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(Day(moment.days()).to_string(), day, "{text}");
            assert!((moment.time_of_day() * 24.0 - hours).abs() < 1e-9, "{text}");
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
            "2023-02-29",
            "31.04.2024",
            "25:00",
            "1:2:3:4",
            "1.0.0",
            "€",
            "€ 17:05",
            "2024-01-31T€",
            "Maybe 3 times",
            "21-Sep",
            "17:05:1e1",
            "20241301",
            "20240131T17050",
            "0001-01-01",
        ] {
            assert!(!is_date(text), "{text}");
        }
    }

    #[test]
    fn day_and_month_are_told_apart_where_the_numbers_allow_it() {
        let written = |text| WrittenDate::parse(text).expect("a date");
        let order = |text| (written(text).order(), written(text).needs_order());
        assert_eq!(order("31/1/2024"), (Some(DateOrder::DayFirst), true));
        assert_eq!(order("1/31/2024"), (Some(DateOrder::MonthFirst), true));
        assert_eq!(order("3/4/2024"), (None, true));
        assert_eq!(order("3.4.2024"), (None, false));
        let days = |order| {
            written("3/4/2024")
                .moment(order)
                .map(|moment| moment.days())
        };
        assert_eq!(days(Some(DateOrder::DayFirst)), Some(19_816.0));
        assert_eq!(days(Some(DateOrder::MonthFirst)), Some(19_786.0));
        assert_eq!(days(None), None);
    }

    /// Compared with Python's `datetime`: days since 1970, place in the year, weekday.
    #[test]
    fn parts_are_those_of_the_calendar() {
        for (text, days, place, weekday) in [
            ("1970-01-01", 0.0, 0.0, 3),
            ("1600-03-01", -135_080.0, 60.0 / 366.0, 2),
            ("1900-03-01", -25_508.0, 59.0 / 365.0, 3),
            ("2000-02-29", 11_016.0, 59.0 / 366.0, 1),
            ("2024-12-31 12:00", 20_088.5, 365.5 / 366.0, 1),
            ("2026-11-26", 20_783.0, 329.0 / 365.0, 3),
            ("2999-12-31", 376_199.0, 364.0 / 365.0, 1),
        ] {
            let written = WrittenDate::parse(text).expect("a date");
            let moment = written.moment(None).expect("a moment");
            assert!((moment.days() - days).abs() < 1e-9, "{text}");
            assert!((moment.place_in_year() - place).abs() < 1e-12, "{text}");
            assert_eq!(moment.weekday(), Some(weekday), "{text}");
            let day = text.split(' ').next();
            assert_eq!(Some(Day(days).to_string().as_str()), day, "{text}");
        }
    }

    #[test]
    fn every_day_is_the_one_after_the_one_before() {
        let mut days = Vec::new();
        for year in 1896..2105 {
            for month in 1..=12 {
                days.extend((1..=31).filter_map(|day| Date::new(year, month, day)));
            }
        }
        for pair in days.windows(2) {
            assert_eq!(pair[1].number(), pair[0].number() + 1, "{pair:?}");
        }
    }

    #[test]
    fn numbers_that_are_not_days_are_written_as_numbers() {
        for days in [f64::MAX, f64::MIN, 1e9, f64::NAN] {
            assert!(Day(days).to_string().contains("days after 1970"), "{days}");
        }
    }
}
