//! A column of dates or times: several inputs, for the trend and for what repeats by year, week and day.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

use super::category_column::MissingCategory;
use super::encoding_problem::EncodingProblem;
use super::far::Far;
use super::number_column::{check_statistics, deviation, is_far};
use crate::numbers::csv::columns::DateForm;
use crate::numbers::csv::date::{Moment, WEEKDAYS, WrittenDate};
use crate::numbers::csv::table::scan::{Missing, Scan};
use crate::numbers::csv::{CsvConfig, DateOrder, OnMissing};
use sconce_base::exact::Exact;

/// Encodes dates as the days since 1970, standardised as numbers are, the place in the year as sine and cosine, the day
/// of the week as an input for each, and the time of day as sine and cosine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DateColumn {
    /// Name of the column.
    pub name: String,
    /// Order of day and month where the form doesn't say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<DateOrder>,
    /// Whether the values have days; otherwise they are times of day.
    pub has_days: bool,
    /// Whether the values have times of day.
    pub has_times: bool,
    /// Mean of the training rows in days since 1970.
    pub mean: Exact,
    /// (Population) standard deviation of the training rows in days, or 1 if all are equal.
    pub deviation: Exact,
    /// Whether the days are standardised.
    #[serde(rename = "standardised")]
    pub is_standardised: bool,
    /// Handling of a missing value.
    pub missing: MissingCategory,
    /// First and last day of the training rows, in days since 1970.
    pub seen: [Exact; 2],
    /// Number of training rows with a value.
    pub rows: usize,
}

impl DateColumn {
    pub(in crate::numbers::csv) fn fit(
        name: String,
        form: DateForm,
        scan: &Scan<'_>,
        config: &CsvConfig,
    ) -> DateColumn {
        let read = |text| WrittenDate::parse(text)?.moment(form.order);
        let texts = scan.counts().iter();
        let moments = texts.filter_map(|(text, count)| Some((read(text)?.days(), count)));
        let days: Vec<(f64, usize)> = moments.collect();
        let rows = days.iter().map(|(_, count)| count).sum();
        let sum: f64 = days.iter().map(|(days, count)| days * *count as f64).sum();
        let mean = if rows == 0 { 0.0 } else { sum / rows as f64 };
        let first = days.iter().map(|(days, _)| *days).reduce(f64::min);
        let last = days.iter().map(|(days, _)| *days).reduce(f64::max);
        let seen = [first, last].map(|day| day.unwrap_or(mean));
        let missing = match config.on_missing {
            OnMissing::Mean if scan.missing > 0 => MissingCategory::Own,
            OnMissing::MostFrequent => {
                let most_frequent = scan.most_frequent().map(str::to_owned);
                most_frequent.map_or(MissingCategory::Refused, MissingCategory::As)
            }
            _ => MissingCategory::Refused,
        };
        DateColumn {
            name,
            order: form.order,
            has_days: form.has_days,
            has_times: form.has_times,
            mean: Exact(mean),
            deviation: Exact(deviation(days.into_iter(), mean, seen)),
            is_standardised: config.standardise,
            missing,
            seen: seen.map(Exact),
            rows,
        }
    }

    pub(in crate::numbers::csv) fn width(&self) -> usize {
        let days = if self.has_days { 3 + WEEKDAYS.len() } else { 0 };
        let times = if self.has_times { 2 } else { 0 };
        days + times + usize::from(self.missing == MissingCategory::Own)
    }

    pub(in crate::numbers::csv) fn input_names(&self) -> Vec<String> {
        let name = &self.name;
        let mut names = Vec::with_capacity(self.width());
        if self.has_days {
            names.push(name.clone());
            let parts = ["year: sine", "year: cosine"].into_iter().chain(WEEKDAYS);
            names.extend(parts.map(|part| format!("{name}, {part}")));
        }
        if self.has_times {
            names.extend(["sine", "cosine"].map(|part| format!("{name}, day: {part}")));
        }
        if self.missing == MissingCategory::Own {
            names.push(format!("{name} is missing"));
        }
        names
    }

    /// Appends the inputs for a text.
    pub(in crate::numbers::csv) fn encode(
        &self,
        text: &str,
        is_missing: &Missing,
        inputs: &mut Vec<f32>,
    ) -> Result<Option<Far>, EncodingProblem> {
        let is_own = self.missing == MissingCategory::Own;
        let text = match &self.missing {
            _ if !is_missing.is(text) => text,
            MissingCategory::As(text) => text,
            MissingCategory::Own => {
                inputs.resize(inputs.len() + self.width() - 1, 0.0);
                inputs.push(1.0);
                return Ok(None);
            }
            MissingCategory::Unseen | MissingCategory::Refused => {
                return Err(EncodingProblem::Missing);
            }
        };
        let moment = self.moment(text).ok_or(EncodingProblem::NotADate)?;
        let mut far = None;
        if self.has_days {
            let days = moment.days();
            let seen = self.seen.map(|seen| seen.0);
            let is_far = self.rows > 0 && is_far(days, seen, self.deviation.0);
            far = is_far.then_some(Far::Day(days, seen));
            inputs.push(if self.is_standardised {
                ((days - self.mean.0) / self.deviation.0) as f32
            } else {
                days as f32
            });
            inputs.extend(on_circle(moment.place_in_year()));
            let weekday = moment.weekday();
            let days = 0..WEEKDAYS.len();
            inputs.extend(days.map(|day| if Some(day) == weekday { 1.0 } else { 0.0 }));
        }
        if self.has_times {
            inputs.extend(on_circle(moment.time_of_day()));
        }
        if is_own {
            inputs.push(0.0);
        }
        Ok(far)
    }

    fn moment(&self, text: &str) -> Option<Moment> {
        let written = WrittenDate::parse(text)?;
        let fits = written.has_day() == self.has_days;
        // A day without a time is its beginning. A time that the training had none of is passed over.
        written.moment(self.order).filter(|_| fits)
    }

    /// Checks what was read from a file.
    pub(in crate::numbers::csv) fn check(&self) -> Result<(), String> {
        let name = &self.name;
        check_statistics(name, self.mean, self.deviation, &self.seen)?;
        if !self.has_days && !self.has_times {
            return Err(format!("the column `{name}` has neither days nor times"));
        }
        match &self.missing {
            MissingCategory::As(text) if self.moment(text).is_none() => Err(format!(
                "a missing value of the column `{name}` is replaced by `{text}`, which is not one of its dates"
            )),
            MissingCategory::Unseen => Err(format!(
                "the column `{name}` of dates has no unknown values"
            )),
            _ => Ok(()),
        }
    }
}

/// Returns sine and cosine of a part of the circle.
fn on_circle(part: f64) -> [f32; 2] {
    let angle = part * TAU;
    [angle.sin() as f32, angle.cos() as f32]
}
