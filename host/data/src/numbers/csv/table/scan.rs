//! Contents of a column: counts of numbers and texts.

use std::collections::{BTreeMap, BTreeSet};

use super::Table;

/// Texts that mark a missing value.
#[derive(Clone, Debug)]
pub(in crate::numbers::csv) struct Missing(BTreeSet<String>);

impl Missing {
    pub(in crate::numbers::csv) fn new(texts: &[String]) -> Missing {
        Missing(texts.iter().map(|text| text.trim().to_owned()).collect())
    }

    pub(in crate::numbers::csv) fn is(&self, text: &str) -> bool {
        self.0.contains(text)
    }
}

/// Parses a decimal number that fits an `f32`.
pub(in crate::numbers::csv) fn number(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (number as f32).is_finite().then_some(number)
}

/// Explains why a text that looks like a number is not one; empty for any other text.
pub(in crate::numbers::csv) fn why_no_number(text: &str) -> &'static str {
    if text.chars().any(char::is_control) {
        return ", which has a control character";
    }
    if let Ok(number) = text.parse::<f64>() {
        return if text.contains(|c: char| c.is_ascii_digit()) && !number.is_nan() {
            ", which is beyond the range of 32-bit floats (±3.4e38)"
        } else {
            ", which is not a finite number"
        };
    }
    if is_with_commas(text) {
        return ", which has a comma: decimals are written with a point, thousands without a mark";
    }
    ""
}

/// Whether a text would be a number without its commas, e.g. `1,5` or `1,234`.
fn is_with_commas(text: &str) -> bool {
    text.contains(',') && number(&text.replace(',', "")).is_some()
}

/// Counts of a column's values.
#[derive(Clone, Debug)]
pub(in crate::numbers::csv) struct Scan<'a> {
    pub(in crate::numbers::csv) missing: usize,
    /// Number of fields that are numbers.
    pub(in crate::numbers::csv) numbers: usize,
    /// Number of fields that look like numbers but are not: infinite, too large, with commas.
    meant: usize,
    /// Number of fields for each text, without missing ones.
    pub(in crate::numbers::csv) texts: BTreeMap<&'a str, usize>,
    /// First row whose field is neither a number nor missing.
    pub(in crate::numbers::csv) first_text: Option<usize>,
    pub(in crate::numbers::csv) min: f64,
    pub(in crate::numbers::csv) max: f64,
    /// Sum of the numbers.
    pub(in crate::numbers::csv) sum: f64,
}

impl<'a> Scan<'a> {
    /// Counts a column's fields in these rows.
    pub(in crate::numbers::csv) fn of(
        table: &'a Table,
        column: usize,
        rows: impl IntoIterator<Item = usize>,
        missing: &Missing,
    ) -> Scan<'a> {
        let mut scan = Scan {
            missing: 0,
            numbers: 0,
            meant: 0,
            texts: BTreeMap::new(),
            first_text: None,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sum: 0.0,
        };
        for row in rows {
            let text = table.field(row, column);
            if missing.is(text) {
                scan.missing += 1;
                continue;
            }
            *scan.texts.entry(text).or_insert(0) += 1;
            if let Some(number) = number(text) {
                scan.numbers += 1;
                scan.min = scan.min.min(number);
                scan.max = scan.max.max(number);
                scan.sum += number;
            } else {
                scan.meant += usize::from(!why_no_number(text).is_empty());
                scan.first_text = scan.first_text.or(Some(row));
            }
        }
        scan
    }

    /// Returns the number of fields that have a value.
    pub(in crate::numbers::csv) fn present(&self) -> usize {
        self.texts.values().sum()
    }

    /// Whether more than half of the fields are numbers or look like them: the others are then more
    /// likely errors than categories.
    pub(in crate::numbers::csv) fn is_mostly_numeric(&self) -> bool {
        (self.numbers + self.meant) * 2 > self.present()
    }

    /// Returns the mean of the numbers; 0 if there are none.
    pub(in crate::numbers::csv) fn mean(&self) -> f64 {
        self.sum / self.numbers.max(1) as f64
    }

    /// Returns the texts in order, numerically if all are numbers.
    pub(in crate::numbers::csv) fn sorted(&self) -> Vec<String> {
        let mut texts: Vec<(f64, &str)> = self
            .texts
            .keys()
            .map(|text| (number(text).unwrap_or(0.0), *text))
            .collect();
        if self.first_text.is_none() {
            // The sort is stable: `1` and `1.0` stay in text order.
            texts.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        texts.iter().map(|(_, text)| (*text).to_owned()).collect()
    }

    /// Returns the most frequent text; of equally frequent ones, the first in sorted order.
    pub(in crate::numbers::csv) fn most_frequent(&self) -> Option<String> {
        let most = self.texts.values().max()?;
        let sorted = self.sorted();
        let mut sorted = sorted.into_iter();
        sorted.find(|text| self.texts.get(text.as_str()) == Some(most))
    }
}
