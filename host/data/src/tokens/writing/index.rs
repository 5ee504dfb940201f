//! The index of a directory of tokens, `tokens.json`.

use std::path::Path;

use sconce_base::files::write_atomically;
use sconce_base::regular_file::read_at_most;
use serde::{Deserialize, Serialize};

use super::unwritten;
use crate::ContentHash;
use crate::error::{DataError, TokensError, unreadable};
use crate::tokens::TokenType;
use crate::tokens::tokenizer::Tokenizer;

/// Name of the index.
pub(in crate::tokens) const INDEX: &str = "tokens.json";

/// Name of the tokenizer's copy.
pub(in crate::tokens) const TOKENIZER: &str = "tokenizer.json";

/// Newest format.
const FORMAT: u32 = 1;

/// Largest index that is read: a million files.
const LARGEST: u64 = 1 << 29;

/// What a directory has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::tokens) struct TokenIndex {
    format: u32,
    written_by: String,
    /// Hash of `tokenizer.json`.
    pub(in crate::tokens) tokenizer: ContentHash,
    /// Number of tokens of the vocabulary.
    pub(in crate::tokens) vocabulary: usize,
    /// Type of the numbers.
    pub(in crate::tokens) dtype: TokenType,
    /// Token after each document.
    pub(in crate::tokens) end: Option<u32>,
    /// Files of tokens, in the order of their sources.
    pub(in crate::tokens) files: Vec<Source>,
}

/// A file of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "they are keys of a file")]
pub(in crate::tokens) struct Source {
    /// Its name in the directory.
    pub(in crate::tokens) file: String,
    /// How many tokens it has.
    pub(in crate::tokens) tokens: u64,
    pub(super) dtype: TokenType,
    /// Path of the text that they were made of.
    pub(super) source: String,
    pub(super) source_bytes: u64,
    pub(super) source_hash: ContentHash,
    /// Key of the text, of a `.jsonl` file.
    pub(super) field: Option<String>,
}

impl TokenIndex {
    /// The index of a directory without any files.
    pub(super) fn new(tokenizer: &Tokenizer, end: Option<u32>) -> TokenIndex {
        TokenIndex {
            format: FORMAT,
            written_by: concat!("sconce-data ", env!("CARGO_PKG_VERSION")).to_owned(),
            tokenizer: tokenizer.hash(),
            vocabulary: tokenizer.vocabulary(),
            dtype: TokenType::of(tokenizer.vocabulary()),
            end,
            files: Vec::new(),
        }
    }

    /// Reads the index of a directory; none if there is none.
    pub(in crate::tokens) fn read(directory: &Path) -> Result<Option<TokenIndex>, DataError> {
        let file = directory.join(INDEX);
        let bytes = match read_at_most(&file, LARGEST) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(&file, error)),
        };
        let wrong = |problem: String| TokensError::Index {
            file: file.clone(),
            problem,
        };
        let index: TokenIndex =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if index.format > FORMAT {
            return Err(wrong(format!(
                "its format {} is newer than this program's",
                index.format
            ))
            .into());
        }
        // Names come from elsewhere: none leads out of the directory.
        let is_name = |name: &str| Path::new(name).file_name().is_some_and(|own| own == name);
        if let Some(source) = index.files.iter().find(|source| !is_name(&source.file)) {
            return Err(wrong(format!("`{}` is not the name of a file in it", source.file)).into());
        }
        Ok(Some(index))
    }

    pub(super) fn write(&self, directory: &Path) -> Result<(), DataError> {
        let file = directory.join(INDEX);
        // Texts and numbers are always JSON.
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        write_atomically(&file, &bytes).map_err(|error| unwritten(&file, error))
    }

    /// The index with the files of this one, if `new` is to have the same tokens.
    pub(super) fn continued_by(
        self,
        new: &TokenIndex,
        directory: &Path,
    ) -> Result<TokenIndex, TokensError> {
        let difference = if self.tokenizer != new.tokenizer {
            "of another tokenizer"
        } else if self.end != new.end {
            "with another end of documents"
        } else {
            return Ok(self);
        };
        Err(TokensError::Occupied {
            directory: directory.to_owned(),
            difference,
        })
    }

    /// A name that is new here, made of a source's.
    pub(super) fn new_name(&self, source: &Path) -> String {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let is_new = |name: &String| self.files.iter().all(|file| file.file != *name);
        let numbered = (2_u64..).map(|number| format!("{stem}-{number}.bin"));
        let mut names = std::iter::once(format!("{stem}.bin")).chain(numbered);
        names.find(is_new).unwrap_or_default()
    }
}
