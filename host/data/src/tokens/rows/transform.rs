//! Other rows as inputs of the same model.

use std::path::Path;
use std::sync::Arc;

use sconce_nn::TokenTargets;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RowDataset;
use super::fields::Fields;
use super::making::{Recipe, rows_in};
use super::store::{NO_CLASS, RowStore};
use crate::dataset::input::InputDescription;
use crate::error::TokensError;
use crate::tokens::TokensTransform;
use crate::tokens::cached::kept_in;
use crate::tokens::tokenizer::chat::{ChatQuestion, ChatTemplate};
use crate::tokens::tokenizer::config_file::tokenizer_config;
use crate::{DataError, Dataset, Targets};

/// What is kept of rows with a model: how their texts become tokens, and their classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredRows", into = "StoredRows")]
pub struct RowsTransform {
    tokens: TokensTransform,
    fields: Fields,
    chat: Option<ChatTemplate>,
    /// Names of the classes; none if completions are learnt.
    classes: Vec<String>,
}

/// Serialised form of a transform.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRows {
    tokens: TokensTransform,
    fields: Fields,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chat: Option<ChatTemplate>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    classes: Vec<String>,
}

impl From<RowsTransform> for StoredRows {
    fn from(rows: RowsTransform) -> StoredRows {
        StoredRows {
            tokens: rows.tokens,
            fields: rows.fields,
            chat: rows.chat,
            classes: rows.classes,
        }
    }
}

impl TryFrom<StoredRows> for RowsTransform {
    type Error = &'static str;

    fn try_from(stored: StoredRows) -> Result<RowsTransform, &'static str> {
        let has_classes = matches!(stored.fields, Fields::Labelled { .. });
        if has_classes == stored.classes.is_empty() {
            return Err("rows have classes if their texts have labels, and none otherwise");
        }
        Ok(RowsTransform::new(
            stored.tokens,
            stored.fields,
            stored.chat,
            stored.classes,
        ))
    }
}

impl RowsTransform {
    pub(super) fn new(
        tokens: TokensTransform,
        fields: Fields,
        chat: Option<ChatTemplate>,
        classes: Vec<String>,
    ) -> RowsTransform {
        RowsTransform {
            tokens,
            fields,
            chat,
            classes,
        }
    }

    /// Returns what is kept of their tokens.
    pub fn tokens(&self) -> &TokensTransform {
        &self.tokens
    }

    /// As [`TokensTransform::tokenizer_config`], with the chat template.
    pub(crate) fn tokenizer_config(&self) -> Option<Value> {
        let (tokenizer, end) = (self.tokens.tokenizer()?, self.tokens.end());
        Some(tokenizer_config(tokenizer, end, self.chat.as_ref()))
    }

    /// A user's message as the chat template has it; none if there is no template.
    ///
    /// # Errors
    ///
    /// If the template fails.
    pub fn question(&self, message: &str) -> Option<Result<ChatQuestion, String>> {
        let chat = self.chat.as_ref()?;
        Some(chat.question(message))
    }

    /// Whether tokens are predicted, not classes.
    pub fn predicts_tokens(&self) -> bool {
        !matches!(self.fields, Fields::Labelled { .. })
    }

    /// The kind of the targets.
    pub(crate) fn targets(&self) -> Targets {
        match self.fields {
            Fields::Labelled { .. } => Targets::Class(self.classes.clone()),
            Fields::Completed { .. } | Fields::Chat { .. } => {
                Targets::TokenPerPosition(TokenTargets {
                    vocabulary: self.tokens.vocabulary(),
                    are_masked: true,
                })
            }
        }
    }

    /// Adds the tokenizer, read from beside the transform's file.
    pub(crate) fn with_tokenizer(self, source: Vec<u8>) -> Result<RowsTransform, String> {
        Ok(RowsTransform {
            tokens: self.tokens.with_tokenizer(source)?,
            ..self
        })
    }

    /// Opens all rows of a file, whose labels may be missing.
    pub(crate) fn open(&self, file: &Path) -> Result<Arc<dyn Dataset>, DataError> {
        let Some(tokenizer) = self.tokens.tokenizer() else {
            return Err(TokensError::NoVocabulary.into());
        };
        let recipe = Recipe {
            tokenizer,
            fields: self.fields.clone(),
            chat: self.chat.as_ref(),
            context: self.tokens.context(),
            end: self.tokens.end(),
            needs_label: false,
        };
        let rows = self.dataset(rows_in(&kept_in()?, file, &recipe)?)?;
        Ok(Arc::new(rows))
    }

    /// All rows of a store as samples.
    pub(super) fn dataset(&self, store: RowStore) -> Result<RowDataset, DataError> {
        let Some(tokenizer) = self.tokens.tokenizer() else {
            return Err(TokensError::NoVocabulary.into());
        };
        let count = u32::try_from(store.len());
        let count = count.map_err(|_| DataError::TooMany(store.len() as u64))?;
        if count == 0 {
            let problem = format!(
                "none of the rows of `{}` has anything to learn within {} tokens",
                store.source.display(),
                self.tokens.context()
            );
            return Err(TokensError::Rows(problem).into());
        }
        let known = |class: &String| {
            let place = self.classes.iter().position(|known| known == class);
            let place = place.ok_or_else(|| {
                TokensError::Rows(format!(
                    "`{}` has the label `{class}`, which no training row has",
                    store.source.display()
                ))
            })?;
            Ok::<_, DataError>(place as u32)
        };
        let classes = store.description.classes.iter().map(known);
        let classes: Vec<u32> = classes.collect::<Result<_, _>>()?;
        let is_labelled = match self.fields {
            Fields::Labelled { .. } => !store.classes.contains(&NO_CLASS),
            Fields::Completed { .. } | Fields::Chat { .. } => true,
        };
        Ok(RowDataset {
            rows: (0..count).collect(),
            shape: [self.tokens.context()],
            padding: self.tokens.end().unwrap_or(0),
            targets: self.targets(),
            tokenizer: Arc::clone(tokenizer),
            classes: classes.into(),
            is_labelled,
            store: Arc::new(store),
        })
    }

    pub(crate) fn describe_input(&self) -> InputDescription {
        let keys = match &self.fields {
            Fields::Labelled { text, .. } => format!("`{text}`"),
            Fields::Completed { prompt, completion } => format!("`{prompt}` and `{completion}`"),
            Fields::Chat { messages } => format!("`{messages}`"),
        };
        InputDescription {
            name: "rows".to_owned(),
            kind: format!(
                "rows with {keys}, of JSON lines or a Parquet file, {} tokens each",
                self.tokens.context()
            ),
            values: format!("{} different tokens", self.tokens.vocabulary()),
        }
    }
}
