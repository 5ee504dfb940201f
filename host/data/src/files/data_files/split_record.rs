//! How samples were divided into parts, for the record.

use serde::{Deserialize, Serialize};

use super::ContentHash;

/// How samples were divided into those to train on, for validation and for the test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitRecord {
    /// Seed by which samples of the training's files were drawn for the other parts; none if none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether all parts have the proportions of the classes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stratified: bool,
    /// Whether the samples of a group are all in one part.
    #[serde(default, skip_serializing_if = "is_false")]
    pub grouped: bool,
    /// If the validation is one of equal parts of the training's files: which, from 1, and of how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<[u64; 2]>,
    /// Number of samples of each part.
    pub rows: PerPart<u64>,
    /// What the hashes are of; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_of: Option<HashOf>,
    /// Hash of each part's samples.
    #[serde(default, skip_serializing_if = "PerPart::is_empty")]
    pub hash: PerPart<ContentHash>,
}

/// A value for each part that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerPart<T> {
    /// Of the samples that were trained on.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub train: Option<T>,
    /// Of those of the validation.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub val: Option<T>,
    /// Of those of the test.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub test: Option<T>,
}

impl<T> PerPart<T> {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.train.is_none() && self.val.is_none() && self.test.is_none()
    }
}

impl<T> Default for PerPart<T> {
    fn default() -> Self {
        PerPart {
            train: None,
            val: None,
            test: None,
        }
    }
}

fn none<T>() -> Option<T> {
    None
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

/// What identifies the samples of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HashOf {
    /// The hashes of its rows, sorted: the same wherever the rows are in the file.
    Rows,
    /// Their positions in the training's file.
    Positions,
}
