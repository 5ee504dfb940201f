//! Text: bytes or characters, of which a model learns to predict the next.

mod config;
mod content;
mod dataset;
mod load;
mod load_tokens;
mod streamed;
mod tokens;
mod transform;

pub use config::{TextConfig, TextPart};
pub use dataset::TextDataset;
pub(super) use load::load;
pub(super) use load_tokens::load_tokens;
pub(super) use tokens::Tokens;
pub use transform::TextTransform;

#[cfg(test)]
mod tests;
