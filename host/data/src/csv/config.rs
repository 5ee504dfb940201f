//! Tables in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Portion;

/// A table of text: one line per sample, its columns numbers or categories.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CsvConfig {
    /// The file, plain or gzipped.
    pub file: PathBuf,
    /// The column that is to be predicted, or several of numbers.
    pub target: Names,
    /// Whether targets are classes or numbers. Default: numbers where the column has nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_kind: Option<TargetKind>,
    /// The columns that become inputs, in this order. Default: all but the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub columns: Option<Vec<String>>,
    /// Columns that become no inputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Columns of numbers, whatever their contents look like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numeric: Vec<String>,
    /// Columns of categories, whatever their contents look like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categorical: Vec<String>,
    /// What stands between two fields: one ASCII character.
    #[serde(default = "comma")]
    pub delimiter: char,
    /// Whether the first line names the columns; without it they are `column1`, `column2`, ….
    #[serde(default = "yes")]
    pub header: bool,
    /// The texts that mean that a value is missing. Spaces around a field never count.
    #[serde(default = "missing")]
    pub missing: Vec<String>,
    /// What becomes of a missing input.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// What becomes of a row whose target is missing.
    #[serde(default)]
    pub on_missing_target: OnMissingTarget,
    /// Whether numbers are brought to mean 0 and standard deviation 1, by the training rows alone.
    #[serde(default = "yes")]
    pub standardise: bool,
    /// What is validated on: a part of this file or a file of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val: Option<Portion>,
    /// What is tested on: a part of this file or a file of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Portion>,
    /// Whether a `count` or `fraction` has every class in the share that it has in the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stratified: bool,
}

/// One column or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Names {
    /// A column.
    One(String),
    /// Several.
    Several(#[schemars(length(min = 1))] Vec<String>),
}

impl Names {
    /// The names, in their order.
    pub fn all(&self) -> &[String] {
        match self {
            Names::One(name) => std::slice::from_ref(name),
            Names::Several(names) => names,
        }
    }
}

/// What targets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// The texts of the column are classes.
    Classes,
    /// The column has numbers.
    Numbers,
}

/// What becomes of a missing input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnMissing {
    /// A number becomes the training rows' mean; a missing category is a category of its own, if
    /// there are any among the training rows.
    #[default]
    Mean,
    /// It becomes what is most frequent among the training rows; of equally frequent ones the
    /// first.
    MostFrequent,
    /// Its row is left out.
    Drop,
    /// It is an error.
    Error,
}

/// What becomes of a row whose target is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnMissingTarget {
    /// It is left out.
    #[default]
    Drop,
    /// It is an error.
    Error,
}

fn comma() -> char {
    ','
}

fn yes() -> bool {
    true
}

fn missing() -> Vec<String> {
    ["", "NA", "NaN", "null", "?"].map(str::to_owned).to_vec()
}
