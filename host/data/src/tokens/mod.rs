//! Tokens: texts as numbers of a vocabulary, of which a model learns to predict the next.
//!
//! **Parts**
//! - `tokenizer`: texts to tokens and back, by a `tokenizer.json`; what it refuses of one that is not trusted; conversations as text; training.
//! - `writing`: text files to token files (`sconce tokenize`), by all threads, resumable; their index, `tokens.json`.
//! - `files`: token files, read by position. `dataset`: windows of them as samples. `load`, `config`: the data kind `tokens`; `sources`:
//!   the files and directories that it names.
//! - `rows`: rows of text, as of a `.jsonl` file.
//! - `transform`: what is kept with a model. `cached`: tokens of a text that a manifest names, kept from run to run.
//!
//! **Flow**: `writing` cuts a text in pieces, has them encoded in parallel, and writes their tokens in order, as raw numbers
//! in nanoGPT's format. A window is one read at its place in these files. Files are never mapped into memory: a mapping of 5 GB
//! fails where the address space is limited, and one of a file that is truncated ends the process.

mod cached;
mod config;
mod dataset;
mod files;
mod load;
pub(super) mod rows;
mod sources;
pub(super) mod tokenizer;
mod transform;
mod vocabulary_source;
pub(super) mod writing;

pub(super) use cached::tokens_of_text;
pub(super) use config::context;
pub use config::{Documents, TokenType, TokensConfig, TokensPart};
pub use dataset::TokenDataset;
pub(super) use load::{load, of_directory};
pub use transform::TokensTransform;
pub use vocabulary_source::VocabularySource;

#[cfg(test)]
mod tests;
