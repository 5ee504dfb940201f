//! JSON, and the position of each value in it.
//!
//! **Parts**
//! - `syntax` parses a text, without its `comments`, or describes what is wrong.
//! - `source`: the text, where each value (`json_path`) is in it, and the `origin` of those that were assigned.

mod comments;
pub mod json_path;
pub(super) mod origin;
pub(super) mod source;
pub(super) mod syntax;
