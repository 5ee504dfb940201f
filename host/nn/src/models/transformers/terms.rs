//! What a model is built for, and why it can't be.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Signal, Targets};

/// What a model ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Head {
    /// A number for each token at each position.
    Language,
    /// A number for each class or target of a sample.
    Classification,
    /// Nothing: the outputs are the vectors of the last block.
    None,
}

impl Head {
    pub(super) fn for_targets(targets: &Targets) -> Head {
        match targets {
            Targets::ClassPerPosition(_) | Targets::TokenPerPosition(_) => Head::Language,
            Targets::Class(_) | Targets::Numbers(_) => Head::Classification,
            Targets::None => Head::None,
        }
    }
}

/// Why a `config.json` describes no model that can be built.
#[derive(Debug, thiserror::Error)]
pub enum TransformersError {
    /// The file can't be read.
    #[error("`{}` can't be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file has no JSON object.
    #[error("`{}` is not a `config.json`: {reason}", path.display())]
    NoObject {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file was not read when the manifest was.
    #[error("`{}` has not been read: `TransformersConfig::read` comes first", .0.display())]
    NotRead(PathBuf),
    /// `model_type` is missing.
    #[error("the model's `config.json` has no `model_type`; families are `{known}`")]
    NoFamily {
        /// All families.
        known: String,
    },
    /// `model_type` is of no family here.
    #[error(
        "the `model_type` of the model's `config.json` is `{found}`, and families are `{known}`"
    )]
    UnknownFamily {
        /// The value.
        found: String,
        /// All families.
        known: String,
    },
    /// A value is none that the key can have.
    #[error("`{key}` of the model's `config.json` is {found}; it must be {wanted}")]
    Value {
        /// The key.
        key: String,
        /// What it can have.
        wanted: String,
        /// The value.
        found: String,
    },
    /// A value means something that can't be built.
    #[error("`{key}` of the model's `config.json` is {found}, which is not supported: {reason}")]
    Refused {
        /// The key.
        key: String,
        /// The value.
        found: String,
        /// What is in the way.
        reason: String,
    },
    /// The samples are not what the model takes.
    #[error("the model takes {wanted}, by its `config.json`, and the data has {found}")]
    Samples {
        /// What the model takes.
        wanted: String,
        /// What the data has.
        found: String,
    },
    /// The head has another number of outputs than there are tokens.
    #[error(
        "the head has {outputs} outputs, one for each token of the data, and the table of tokens {vocabulary} rows: \
         `transformers` wants as many; train with `\"vocab_size\": {outputs}` in `config.json`"
    )]
    Vocabulary {
        /// Outputs of the head.
        outputs: usize,
        /// Rows of the table.
        vocabulary: usize,
    },
    /// The family has no such head.
    #[error("the family has no head for `language`: take `classification` or `none`")]
    NoLanguage,
}

/// What a model is built for.
pub(super) struct Shapes<'a> {
    pub(super) input: &'a Signal,
    pub(super) head: Head,
    pub(super) recompute: bool,
}

impl Shapes<'_> {
    /// Checks that samples are images of these channels, and of this side if it matters.
    pub(super) fn expect_images(
        &self,
        channels: usize,
        side: Option<usize>,
    ) -> Result<(), TransformersError> {
        let fits = match (&self.input.shape[..], side) {
            (&[found, height, width], Some(side)) => {
                (found, height, width) == (channels, side, side)
            }
            (&[found, ..], None) => found == channels && self.input.shape.len() == 3,
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let wanted = match side {
            Some(side) => format!("images of shape [{channels}, {side}, {side}]"),
            None => format!("images of {channels} channels"),
        };
        Err(TransformersError::Samples {
            wanted,
            found: self.input.to_string(),
        })
    }
}
