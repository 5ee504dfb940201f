//! Rows of text: a text with a class, prompts with what is to be answered, or conversations.
//!
//! **Parts**
//! - `config`: the data kinds `jsonl` and `parquet`. `source`: a file's rows, `lines` or those of `parquet`. `fields`: a row's texts.
//!   `making`: their tokens, made once by all threads and kept in the user's cache directory; `store`: these files. `dataset`: rows as samples; `packed`: several in each, as `packing`
//!   arranges them. `load`: their division. `transform`: other rows.
//!
//! **Flow**: each row is read, its texts become tokens, each marked as one to learn or not, and a row longer than `context` is
//! cut; a row in which nothing is left to learn is dropped. Of all rows memory has their places alone, 12 bytes each.

mod config;
mod dataset;
mod fields;
mod lines;
mod load;
mod making;
mod packed;
mod packing;
mod parquet;
mod source;
mod store;
mod transform;

pub use config::JsonlConfig;
pub(in crate::tokens) use dataset::RowDataset;
#[cfg(test)]
pub(in crate::tokens) use load::load_in;
pub(crate) use load::{load, load_parquet};
pub use transform::RowsTransform;
