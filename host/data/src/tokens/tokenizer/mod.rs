//! A tokenizer: a text's tokens and a token's text, as `tokenizer.json` says.
//!
//! **Parts**: `safety`: what is refused of a file that is not trusted. `byte_counts`: the bytes that each token stands for.
//! `chat`: conversations as text. `config_file`: what other programs want beside it. `pieces`: where texts are cut. `training`: a new one, from texts.
//!
//! A text is encoded in pieces, cut at ends of lines, by whichever threads the caller has: the library's own pool is switched
//! off, or the two would compete.

mod byte_counts;
pub(in crate::tokens) mod chat;
pub(in crate::tokens) mod config_file;
pub(in crate::tokens) mod pieces;
mod safety;
pub(in crate::tokens) mod training;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fancy_regex::Regex;
use sconce_base::regular_file::read_at_most;
use serde_json::Value;

pub use chat::ChatQuestion;

use super::vocabulary_source::MOST;
use crate::ContentHash;
use crate::error::{DataError, TokensError, unreadable};
use crate::files::data_files::note;

/// Largest file that is read as a tokenizer; the largest in use have about 35 MB.
const LARGEST: u64 = 1 << 28;

/// Names of the token at the end of documents, as tokenizers in use have it.
const ENDS: [&str; 5] = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]"];

/// Text to tokens and back.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Its patterns, which the library itself stops to apply, without a word, where one explodes.
    patterns: Vec<Regex>,
    vocabulary: usize,
    bytes: Option<Arc<[u32]>>,
    source: Vec<u8>,
    hash: ContentHash,
}

/// Name of the file in a model's directory.
const FILE: &str = "tokenizer.json";

impl Tokenizer {
    /// Returns the file that a path means: of a model's directory, its `tokenizer.json`.
    pub(in crate::tokens) fn file_of(path: PathBuf) -> PathBuf {
        if path.is_dir() { path.join(FILE) } else { path }
    }

    /// Reads a `tokenizer.json`, or that of a directory.
    ///
    /// # Errors
    ///
    /// If it can't be read, is damaged, or has something that could take for ever, fill the memory, or give other tokens at
    /// each call.
    pub fn open(path: &Path) -> Result<Tokenizer, DataError> {
        let file = Tokenizer::file_of(path.to_owned());
        let bytes = read_at_most(&file, LARGEST).map_err(|error| unreadable(&file, error))?;
        note(&file, &bytes);
        Tokenizer::from_bytes(bytes)
            .map_err(|problem| DataError::from(TokensError::Tokenizer { file, problem }))
    }

    /// Takes the content of a `tokenizer.json`; see [`open`](Tokenizer::open).
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub fn from_bytes(source: Vec<u8>) -> Result<Tokenizer, String> {
        let value: Value = serde_json::from_slice(&source).map_err(|error| error.to_string())?;
        let patterns = safety::checked(&value)?;
        tokenizers::utils::parallelism::set_parallelism(false);
        let mut inner = guarded(|| tokenizers::Tokenizer::from_bytes(&source))?;
        // Samples are cut and filled where they are made.
        guarded(|| inner.with_truncation(None).map(|_| ()))?;
        inner.with_padding(None);
        let ids = inner.get_vocab(true);
        let largest = ids.values().copied().max();
        let vocabulary = largest.map_or(0, |id| id as usize + 1);
        if !(1..=MOST).contains(&vocabulary) {
            return Err(format!("it has {vocabulary} tokens, not from 1 to {MOST}"));
        }
        Ok(Tokenizer {
            bytes: byte_counts::of(&value, &inner, vocabulary),
            patterns,
            vocabulary,
            hash: ContentHash::of(&source),
            source,
            inner,
        })
    }

    /// Returns the number of tokens: ids are below it.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Returns the number of bytes of text that each token stands for, by its id; none where tokens don't have all of a text.
    /// Special tokens stand for none.
    pub fn bytes(&self) -> Option<&Arc<[u32]>> {
        self.bytes.as_ref()
    }

    /// Returns the hash of its file.
    pub fn hash(&self) -> ContentHash {
        self.hash
    }

    /// Returns the content of its file.
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// Returns the id of a token by its name.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Returns the token at the end of documents, by the names that it has in tokenizers in use.
    pub fn usual_end(&self) -> Option<u32> {
        ENDS.iter().find_map(|name| self.id(name))
    }

    /// Returns the tokens of a text; with those that the tokenizer puts around it, such as `[CLS]`, if `is_wrapped`.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub fn encode(&self, text: &str, is_wrapped: bool) -> Result<Vec<u32>, String> {
        for pattern in &self.patterns {
            for found in pattern.find_iter(text) {
                found.map_err(|error| {
                    format!(
                        "the tokenizer's pattern `{}` fails here: {error}",
                        pattern.as_str()
                    )
                })?;
            }
        }
        let encoding = guarded(|| self.inner.encode_fast(text, is_wrapped))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Returns the text of tokens, without special ones if `skips_special`.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub fn decode(&self, tokens: &[u32], skips_special: bool) -> Result<String, String> {
        guarded(|| self.inner.decode(tokens, skips_special))
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokenizer({})", self.hash.short())
    }
}

/// Calls the library, whose errors become words, and so do its panics: it has some for files that are not as it expects.
fn guarded<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("the library that reads it, `tokenizers`, panicked".to_owned()),
    }
}
