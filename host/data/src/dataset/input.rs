//! Inputs opened for predictions: their samples, and remarks on them.

use std::fmt;
use std::sync::Arc;

use crate::Dataset;
use crate::error::printable::printable;
use crate::files::data_files::DataFile;

/// Samples to predict.
#[derive(Clone)]
pub struct OpenedInput {
    /// The samples. Their targets are placeholders unless [`Dataset::has_targets`].
    pub samples: Arc<dyn Dataset>,
    /// What is unusual about them.
    pub notes: InputNotes,
}

impl OpenedInput {
    /// Samples without anything unusual.
    pub(crate) fn new(samples: Arc<dyn Dataset>) -> OpenedInput {
        OpenedInput {
            samples,
            notes: InputNotes::default(),
        }
    }
}

/// Samples with their targets, to evaluate a model.
#[derive(Clone)]
pub struct LabelledInput {
    /// The samples, and what is unusual about them.
    pub opened: OpenedInput,
    /// What there was beside them.
    pub rows: RowCounts,
    /// The files that they were read from.
    pub files: Vec<DataFile>,
}

/// Rows of a table that are not among the samples taken of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Rows of the wanted part that the table doesn't have.
    pub absent: usize,
    /// Rows of the table that are in no part of the training's data.
    pub new: usize,
    /// Rows left out because their target is missing.
    pub without_target: usize,
    /// Rows left out because an input is missing, which the training didn't have or left out as well.
    pub incomplete: usize,
    /// Column of the training's row weights that the table doesn't have: all rows weigh the same.
    pub without_weight: Option<String>,
}

impl RowCounts {
    /// Returns a sentence for each kind of row that is left out, and about missing weights.
    pub fn lines(&self) -> Vec<String> {
        let kinds = [
            (self.without_target, "without a target"),
            (
                self.incomplete,
                "with a missing value, which the model doesn't handle,",
            ),
        ];
        let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
        let line = |(count, kind)| match count {
            1 => format!("a row {kind} is left out"),
            count => format!("{count} rows {kind} are left out"),
        };
        let weight = self.without_weight.as_ref().map(|name| {
            let name = printable(name);
            format!("the column `{name}` of the rows' weights isn't there: all rows weigh the same")
        });
        kinds.map(line).chain(weight).collect()
    }
}

/// What is unusual about an input, but doesn't prevent predictions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputNotes {
    /// Names of columns that the model doesn't know; they are ignored.
    pub added_columns: Vec<String>,
    /// Number of values that are further from those of the training than ten standard deviations.
    pub far_values: usize,
    /// First of these values.
    pub first_far: Option<FarValue>,
}

/// A value far from those of the training.
#[derive(Clone, Debug, PartialEq)]
pub struct FarValue {
    /// Line of the value's row, from 1.
    pub line: u64,
    /// Column of the value.
    pub column: String,
    /// The value, as a number or a day.
    pub value: String,
    /// Smallest and largest value in the training.
    pub seen: [String; 2],
}

impl InputNotes {
    /// Whether there is nothing unusual.
    pub fn is_empty(&self) -> bool {
        *self == InputNotes::default()
    }

    /// Counts a value far from those of the training.
    pub(crate) fn add_far(&mut self, value: impl FnOnce() -> FarValue) {
        self.far_values += 1;
        if self.first_far.is_none() {
            self.first_far = Some(value());
        }
    }

    /// Adds those of further inputs.
    pub fn merge(&mut self, more: InputNotes) {
        for name in more.added_columns {
            if !self.added_columns.contains(&name) {
                self.added_columns.push(name);
            }
        }
        self.far_values += more.far_values;
        if self.first_far.is_none() {
            self.first_far = more.first_far;
        }
    }

    /// Returns a sentence for each kind of remark.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.added_columns.is_empty() {
            let names = self.added_columns.iter();
            let names: Vec<String> = names.map(|name| format!("`{}`", printable(name))).collect();
            lines.push(format!(
                "ignored columns that the training didn't have: {}",
                names.join(", ")
            ));
        }
        if let Some(first) = &self.first_far {
            let count = match self.far_values {
                1 => "a value is".to_owned(),
                count => format!("{count} values are"),
            };
            lines.push(format!(
                "{count} far from those of the training, by more than ten standard deviations; the first: {first}"
            ));
        }
        lines
    }
}

impl fmt::Display for FarValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [least, most] = &self.seen;
        let column = printable(&self.column);
        write!(
            f,
            "line {}, column `{column}`, {} (in the training from {least} to {most})",
            self.line, self.value
        )
    }
}

/// Description of an input of a model, for a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputDescription {
    /// Name: a column, `image`, `text` or `input`.
    pub name: String,
    /// Kind, such as `number` or `category`.
    pub kind: String,
    /// Which values are known or expected.
    pub values: String,
}
