//! Text: bytes or characters, of which a model learns to predict the next.

mod config;
mod content;
mod dataset;
mod error;
mod load;
mod streamed;
mod tokens;
mod transform;
mod vocabulary;

pub(super) use config::context;
pub use config::{TextConfig, TextPart, TextUnit};
pub use dataset::TextDataset;
pub use error::TextError;
pub(super) use load::load;
pub(super) use tokens::Tokens;
pub use transform::TextTransform;
pub use vocabulary::{Unknown, Vocabulary};

#[cfg(test)]
mod tests;
