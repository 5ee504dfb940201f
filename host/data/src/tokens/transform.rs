//! Other tokens, or other text, as inputs of the same model.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dataset::{TokenDataset, TokenRange};
use super::files::TokenFiles;
use super::sources::of_directory_range;
use super::tokenizer::Tokenizer;
use super::tokenizer::config_file::tokenizer_config;
use super::vocabulary_source::MOST;
use super::{TokenType, cached};
use crate::dataset::input::InputDescription;
use crate::{ContentHash, DataError, Dataset, Targets, TokenTargets};

/// What is kept of tokens with a model: their vocabulary, the number of tokens per sample, and what makes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StoredTransform", into = "StoredTransform")]
pub struct TokensTransform {
    stored: StoredTransform,
    /// Not in the transform's own file, but beside it.
    tokenizer: Option<SameTokenizer>,
}

/// A tokenizer, which equals those of the same file.
#[derive(Clone, Debug)]
struct SameTokenizer(Arc<Tokenizer>);

impl PartialEq for SameTokenizer {
    fn eq(&self, other: &Self) -> bool {
        self.0.hash() == other.0.hash()
    }
}

impl Eq for SameTokenizer {}

/// Longest context that a file may have, as in a manifest.
const MOST_CONTEXT: usize = 1_000_000;

/// Serialised form of a transform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredTransform {
    context: usize,
    vocabulary: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<u32>,
    /// Whether documents were kept apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    separate: bool,
    /// Hash of the tokenizer's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokenizer: Option<ContentHash>,
}

impl From<TokensTransform> for StoredTransform {
    fn from(transform: TokensTransform) -> StoredTransform {
        transform.stored
    }
}

impl TryFrom<StoredTransform> for TokensTransform {
    type Error = String;

    fn try_from(stored: StoredTransform) -> Result<TokensTransform, String> {
        for (name, found, most) in [
            ("context", stored.context, MOST_CONTEXT),
            ("vocabulary", stored.vocabulary, MOST),
        ] {
            if !(1..=most).contains(&found) {
                return Err(format!(
                    "the {name} must be from 1 to {most}, found {found}"
                ));
            }
        }
        Ok(TokensTransform {
            stored,
            tokenizer: None,
        })
    }
}

impl TokensTransform {
    pub(super) fn new(
        context: usize,
        vocabulary: usize,
        end: Option<u32>,
        tokenizer: Option<Arc<Tokenizer>>,
    ) -> TokensTransform {
        TokensTransform {
            stored: StoredTransform {
                context,
                vocabulary,
                end,
                separate: false,
                tokenizer: tokenizer.as_ref().map(|tokenizer| tokenizer.hash()),
            },
            tokenizer: tokenizer.map(SameTokenizer),
        }
    }

    /// As documents are kept apart in training: none sees another one.
    pub(super) fn separated(mut self, are_separate: bool) -> TokensTransform {
        self.stored.separate = are_separate;
        self
    }

    /// Returns the number of tokens per sample.
    pub fn context(&self) -> usize {
        self.stored.context
    }

    /// Returns the number of different tokens.
    pub fn vocabulary(&self) -> usize {
        self.stored.vocabulary
    }

    /// Returns the token at the end of documents, if there is one.
    pub fn end(&self) -> Option<u32> {
        self.stored.end
    }

    /// Returns what makes the tokens, if it is known.
    pub fn tokenizer(&self) -> Option<&Arc<Tokenizer>> {
        self.tokenizer.as_ref().map(|same| &same.0)
    }

    /// What other programs want to know of the tokenizer, as `tokenizer_config.json`; none without one.
    pub(crate) fn tokenizer_config(&self) -> Option<Value> {
        let tokenizer = self.tokenizer()?;
        Some(tokenizer_config(tokenizer, self.stored.end, None))
    }

    /// The kind of the targets.
    pub(crate) fn targets(&self) -> Targets {
        Targets::TokenPerPosition(TokenTargets {
            vocabulary: self.stored.vocabulary,
            are_masked: false,
        })
    }

    /// Whether a tokenizer belongs to it that has not been read.
    pub(crate) fn lacks_tokenizer(&self) -> bool {
        self.stored.tokenizer.is_some() && self.tokenizer.is_none()
    }

    /// Adds the tokenizer, read from beside the transform's file.
    pub(crate) fn with_tokenizer(mut self, source: Vec<u8>) -> Result<TokensTransform, String> {
        if Some(ContentHash::of(&source)) != self.stored.tokenizer {
            return Err("it is another tokenizer than that of the training".to_owned());
        }
        let tokenizer = Tokenizer::from_bytes(source)?;
        self.tokenizer = Some(SameTokenizer(Arc::new(tokenizer)));
        Ok(self)
    }

    /// Opens the windows of tokens, one after the other: of a directory that `sconce tokenize` wrote, a token file
    /// (`.bin`, `.npy`), or a text, if the tokenizer is known.
    pub(crate) fn open(&self, source: &Path) -> Result<Arc<dyn Dataset>, DataError> {
        let extension = source.extension().and_then(|extension| extension.to_str());
        let is_tokens = matches!(extension, Some("bin" | "npy"));
        let range = match self.tokenizer() {
            _ if source.is_dir() => {
                let (range, _) = of_directory_range(source)?;
                range.files.compare(self.stored.vocabulary)?;
                range
            }
            Some(tokenizer) if !is_tokens => {
                let directory = cached::directory_of(source, tokenizer, self.stored.end)?;
                of_directory_range(&directory)?.0
            }
            tokenizer => {
                let dtype = TokenType::of(self.stored.vocabulary);
                let files = TokenFiles::open(&[(source.to_owned(), dtype)])?;
                files.compare(self.stored.vocabulary)?;
                TokenRange {
                    range: 0..files.total(),
                    files: Arc::new(files),
                    vocabulary: self.stored.vocabulary,
                    tokenizer: tokenizer.cloned(),
                }
            }
        };
        let range = TokenRange {
            vocabulary: self.stored.vocabulary,
            ..range
        };
        let windows = TokenDataset::new(range, self.stored.context, "tokens", None)?;
        Ok(match self.stored.end {
            Some(end) if self.stored.separate => Arc::new(windows.separated(end)),
            _ => Arc::new(windows),
        })
    }

    pub(crate) fn describe_input(&self) -> InputDescription {
        let StoredTransform {
            context,
            vocabulary,
            ..
        } = &self.stored;
        InputDescription {
            name: "tokens".to_owned(),
            kind: format!("tokens, {context} at a time"),
            values: format!("{vocabulary} different tokens"),
        }
    }
}
