//! Shapes and kinds of what goes into a model, is between its layers, and comes out; and what the layers cost.

mod samples;
mod signal;
mod summary;

pub use samples::{Inputs, Targets, TokenTargets};
pub use signal::Signal;
pub(crate) use signal::product;
pub use summary::{LayerSummary, Summary};
