//! Tables in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{HeldOut, TargetScale};

/// A CSV table: one line per sample, with numeric or categorical columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CsvConfig {
    /// Path of the file, plain or gzipped.
    pub file: PathBuf,
    /// Column to predict, or several numeric ones; `[]` for none, where only a loss that hooks give will do.
    pub target: Names,
    /// Whether targets are classes or numbers. Default: numbers if the column has only numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_kind: Option<TargetKind>,
    /// Scaling of numeric targets for the loss. Metrics, predictions, and what hooks see stay in the table's own units.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_scaling: Option<TargetScale>,
    /// Columns to use as inputs, in this order. Default: all except the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub columns: Option<Vec<String>>,
    /// Columns not to use as inputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Columns to treat as numeric, whatever their contents look like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numeric: Vec<String>,
    /// Columns to treat as categorical, whatever their contents look like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categorical: Vec<String>,
    /// Columns with dates or times, which become several inputs: the days since 1970, the place in the year as sine and
    /// cosine, the day of the week, and the time of day as sine and cosine if there are times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dates: Vec<String>,
    /// Order of day and month in dates such as `3/4/2024`. Default: the one in which all dates of the column exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date_order: Option<DateOrder>,
    /// Categorical columns that become one input each, the category's number, for the vectors that a layer
    /// `embed-categories` learns; `true` for all. Default: an input for each category.
    #[serde(default, skip_serializing_if = "Embedded::is_none")]
    pub embed: Embedded,
    /// Field delimiter: one ASCII character.
    #[serde(default = "comma")]
    pub delimiter: char,
    /// Whether the first line names the columns; without it they are `column1`, `column2`, ….
    #[serde(default = "yes")]
    pub header: bool,
    /// Texts that mark a missing value. Spaces around a field are ignored.
    #[serde(default = "default_missing")]
    pub missing: Vec<String>,
    /// Handling of missing inputs.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Handling of rows whose target is missing.
    #[serde(default)]
    pub on_missing_target: OnMissingTarget,
    /// Handling of categories that the training rows don't have. Default: `zeros` in validation and test, `error` in
    /// predictions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_unknown: Option<OnUnknown>,
    /// With `on_unknown` `own`: categories of fewer training rows than this are unknown, so that the model learns an
    /// input for unknown ones. Default: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_count: Option<usize>,
    /// Whether to standardise numbers to mean 0 and standard deviation 1, from the training rows only.
    #[serde(default = "yes")]
    pub standardise: bool,
    /// Data for validation and test.
    #[serde(flatten)]
    pub held_out: HeldOut,
    /// Column whose rows of equal text are all in one part, such as the patient they come from. It isn't an input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Column with the weight of each row in the loss, 0 or more. It isn't an input, and metrics count each row once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
}

/// One column or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Names {
    /// One column.
    One(String),
    /// Several columns, or none.
    Several(Vec<String>),
}

impl Names {
    /// Returns the names, in their order.
    pub fn all(&self) -> &[String] {
        match self {
            Names::One(name) => std::slice::from_ref(name),
            Names::Several(names) => names,
        }
    }
}

/// Columns whose categories are embedded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Embedded {
    /// All categorical columns, or none.
    All(bool),
    /// These columns.
    Columns(Vec<String>),
}

impl Default for Embedded {
    fn default() -> Embedded {
        Embedded::All(false)
    }
}

impl Embedded {
    /// Whether no column is embedded.
    pub fn is_none(&self) -> bool {
        match self {
            Embedded::All(all) => !all,
            Embedded::Columns(names) => names.is_empty(),
        }
    }

    /// Returns the columns that are listed.
    pub fn listed(&self) -> &[String] {
        match self {
            Embedded::All(_) => &[],
            Embedded::Columns(names) => names,
        }
    }

    pub(super) fn has(&self, name: &String) -> bool {
        match self {
            Embedded::All(all) => *all,
            Embedded::Columns(names) => names.contains(name),
        }
    }
}

/// Order of day and month in a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DateOrder {
    /// As in `31/1/2024`.
    DayFirst,
    /// As in `1/31/2024`.
    MonthFirst,
}

impl DateOrder {
    pub(super) fn example(self) -> &'static str {
        match self {
            DateOrder::DayFirst => "such as `31/1/2024`",
            DateOrder::MonthFirst => "such as `1/31/2024`",
        }
    }
}

/// Kind of the targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// The column's texts are classes.
    Classes,
    /// The column has numbers.
    Numbers,
}

/// Handling of missing inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnMissing {
    /// Replace a number by the training rows' mean; a missing category is a category of its own, if
    /// the training rows have missing ones.
    #[default]
    Mean,
    /// Replace it by the most frequent value in the training rows; of equally frequent ones, the
    /// first.
    MostFrequent,
    /// Leave out its row.
    Drop,
    /// Report an error.
    Error,
}

/// Handling of rows whose target is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnMissingTarget {
    /// Leave out the row.
    #[default]
    Drop,
    /// Report an error.
    Error,
}

/// Handling of categories that the training rows don't have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnUnknown {
    /// Report an error, with line, column and value.
    Error,
    /// Set all inputs of the column to 0.
    Zeros,
    /// Use an input of its own, after those of the categories. It is trained by the categories rarer than `min_count`.
    Own,
}

/// Default of `min_count`.
pub(super) const DEFAULT_MIN_COUNT: usize = 2;

fn comma() -> char {
    ','
}

fn yes() -> bool {
    true
}

/// Returns the default of `missing`.
pub fn default_missing() -> Vec<String> {
    ["", "NA", "NaN", "null", "?"].map(str::to_owned).to_vec()
}
