//! Contents of a column: counts of numbers and texts.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use super::Table;

/// Texts that mark a missing value.
#[derive(Clone, Debug)]
pub(in crate::numbers::csv) struct Missing {
    texts: BTreeSet<String>,
    /// Length of the longest in bytes: most fields are longer, and need no search.
    longest: usize,
}

impl Missing {
    pub(in crate::numbers::csv) fn new(texts: &[String]) -> Missing {
        let texts: BTreeSet<String> = texts.iter().map(|text| text.trim().to_owned()).collect();
        let longest = texts.iter().map(String::len).max().unwrap_or(0);
        Missing { texts, longest }
    }

    pub(in crate::numbers::csv) fn is(&self, text: &str) -> bool {
        text.len() <= self.longest && self.texts.contains(text)
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
    /// Fields that have a value, in the order of the rows.
    present: Vec<&'a str>,
    /// Counts of these, once they are asked for.
    counts: OnceCell<TextCounts<'a>>,
    /// First row whose field is neither a number nor missing.
    pub(in crate::numbers::csv) first_text: Option<usize>,
    pub(in crate::numbers::csv) min: f64,
    pub(in crate::numbers::csv) max: f64,
    /// Sum of the numbers.
    pub(in crate::numbers::csv) sum: f64,
}

/// Different texts of a column in their order, each with the number of its fields.
#[derive(Clone, Debug)]
pub(in crate::numbers::csv) struct TextCounts<'a>(Vec<(&'a str, usize)>);

impl<'a> TextCounts<'a> {
    fn of(fields: &[&'a str]) -> TextCounts<'a> {
        // Nearly all comparisons need the first bytes only, which are here and not wherever the text is.
        let fields = fields.iter().map(|text| (order_of(text), *text));
        let mut fields: Vec<_> = fields.collect();
        fields.sort_unstable_by_key(|(order, _)| *order);
        let equal = fields.chunk_by(|(one, _), (next, _)| one == next);
        TextCounts(
            equal
                .filter_map(|equal| Some((equal.first()?.1, equal.len())))
                .collect(),
        )
    }

    pub(in crate::numbers::csv) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::numbers::csv) fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = (&'a str, usize)> + Clone + '_ {
        self.0.iter().copied()
    }

    pub(in crate::numbers::csv) fn texts(
        &self,
    ) -> impl ExactSizeIterator<Item = &'a str> + Clone + '_ {
        self.0.iter().map(|(text, _)| *text)
    }
}

/// Returns what texts are sorted by: their first bytes as a number, with zeros after the end, since there are none in a table, and
/// the bytes after these.
fn order_of(text: &str) -> (u128, &[u8]) {
    const FIRST: usize = size_of::<u128>();
    let mut first = [0; FIRST];
    for (first, byte) in first.iter_mut().zip(text.bytes()) {
        *first = byte;
    }
    let rest = text.as_bytes().get(FIRST..).unwrap_or_default();
    (u128::from_be_bytes(first), rest)
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
            present: Vec::new(),
            counts: OnceCell::new(),
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
            scan.present.push(text);
            if let Some(number) = number(text) {
                scan.numbers += 1;
                scan.min = scan.min.min(number);
                scan.max = scan.max.max(number);
                scan.sum += number;
            } else {
                scan.first_text = scan.first_text.or(Some(row));
            }
        }
        scan
    }

    /// Returns the number of fields that have a value.
    pub(in crate::numbers::csv) fn present(&self) -> usize {
        self.present.len()
    }

    /// Returns the texts of fields that have a value. They are sorted the first time.
    pub(in crate::numbers::csv) fn counts(&self) -> &TextCounts<'a> {
        self.counts.get_or_init(|| TextCounts::of(&self.present))
    }

    /// Whether more than half of the fields are numbers or look like them: the others are then more
    /// likely errors than categories.
    pub(in crate::numbers::csv) fn is_mostly_numeric(&self) -> bool {
        // Infinite, too large, with commas.
        let looks_so = |text: &str| number(text).is_none() && !why_no_number(text).is_empty();
        let texts = self.counts().iter().filter(|(text, _)| looks_so(text));
        let meant: usize = texts.map(|(_, count)| count).sum();
        (self.numbers + meant) * 2 > self.present()
    }

    /// Returns the mean of the numbers; 0 if there are none.
    pub(in crate::numbers::csv) fn mean(&self) -> f64 {
        self.sum / self.numbers.max(1) as f64
    }

    /// Returns the texts with their counts in order, numerically if all are numbers.
    pub(in crate::numbers::csv) fn sorted(&self) -> Vec<(&'a str, usize)> {
        let counts = self.counts();
        if self.first_text.is_some() {
            return counts.iter().collect();
        }
        let numbered = counts
            .iter()
            .map(|(text, count)| (number(text).unwrap_or(0.0), text, count));
        let mut sorted: Vec<(f64, &str, usize)> = numbered.collect();
        // The sort is stable: `1` and `1.0` stay in text order.
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        sorted
            .into_iter()
            .map(|(_, text, count)| (text, count))
            .collect()
    }

    /// Returns the most frequent text; of equally frequent ones, the first in sorted order.
    pub(in crate::numbers::csv) fn most_frequent(&self) -> Option<&'a str> {
        let most = self.counts().iter().map(|(_, count)| count).max()?;
        let mut sorted = self.sorted().into_iter();
        let first = sorted.find(|(_, count)| *count == most);
        first.map(|(text, _)| text)
    }
}
