//! Other text as inputs of the same model.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::dataset::whole;
use crate::dataset::input::InputDescription;
use crate::vocabulary::Vocabulary;
use crate::{DataError, Dataset, MemoryUse};

/// What was learnt from text: its vocabulary, and the number of tokens per sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredTransform", into = "StoredTransform")]
pub struct TextTransform {
    vocabulary: Arc<Vocabulary>,
    context: usize,
}

/// Longest context that a file may have, as in a manifest.
const MOST_CONTEXT: usize = 1_000_000;

/// Serialised form of a transform.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTransform {
    vocabulary: Vocabulary,
    context: usize,
}

impl From<TextTransform> for StoredTransform {
    fn from(transform: TextTransform) -> StoredTransform {
        StoredTransform {
            vocabulary: transform.vocabulary.as_ref().clone(),
            context: transform.context,
        }
    }
}

impl TryFrom<StoredTransform> for TextTransform {
    type Error = String;

    fn try_from(stored: StoredTransform) -> Result<TextTransform, String> {
        let context = stored.context;
        if !(1..=MOST_CONTEXT).contains(&context) {
            return Err(format!(
                "the context must be from 1 to {MOST_CONTEXT}, found {context}"
            ));
        }
        if stored.vocabulary.is_empty() {
            return Err("the vocabulary is empty".to_owned());
        }
        Ok(TextTransform::new(Arc::new(stored.vocabulary), context))
    }
}

impl TextTransform {
    pub(crate) fn new(vocabulary: Arc<Vocabulary>, context: usize) -> TextTransform {
        TextTransform {
            vocabulary,
            context,
        }
    }

    /// Returns the vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Returns the number of tokens per sample.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Opens the windows of a text file, one after the other.
    pub(crate) fn open(&self, file: &Path) -> Result<Arc<dyn Dataset>, DataError> {
        whole(
            file,
            "text",
            &self.vocabulary,
            self.context,
            MemoryUse::Auto,
        )
    }

    pub(crate) fn describe_input(&self) -> InputDescription {
        let unit = self.vocabulary.unit().plural();
        InputDescription {
            name: "text".to_owned(),
            kind: format!("text in {unit}, {} at a time", self.context),
            values: format!("{} different {unit}", self.vocabulary.len()),
        }
    }
}
