//! Rows of a table as they are kept: the text of all fields in one piece, since columns are read from top to bottom several times.

use csv::StringRecord;

/// Rows with one field per column.
#[derive(Default)]
pub(super) struct Rows {
    text: String,
    /// End of each field in the text, row by row.
    ends: Vec<usize>,
    /// Line of the file on which each row begins, from 1.
    lines: Vec<u64>,
    /// Number of fields of a row.
    columns: usize,
}

impl Rows {
    /// Adds a row, which must have as many fields as those before it.
    pub(super) fn push(&mut self, row: &StringRecord) {
        self.columns = row.len();
        self.lines
            .push(row.position().map_or(0, csv::Position::line));
        for field in row {
            self.text.push_str(field);
            self.ends.push(self.text.len());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the line of a row; 0 if there is no such row.
    pub(super) fn line(&self, row: usize) -> u64 {
        self.lines.get(row).copied().unwrap_or(0)
    }

    /// Returns the text of a field; empty if there is no such field.
    pub(super) fn field(&self, row: usize, column: usize) -> &str {
        if column >= self.columns {
            return "";
        }
        let place = row * self.columns + column;
        let end = |place: usize| self.ends.get(place).copied();
        let start = place.checked_sub(1).map_or(Some(0), end);
        let range = start.zip(end(place)).map(|(start, end)| start..end);
        range
            .and_then(|range| self.text.get(range))
            .unwrap_or_default()
    }
}
