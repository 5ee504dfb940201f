//! Layers that treat each element alike: nonlinearities, dropout, factors.

mod activation;
mod dropout;
mod scale;

pub use activation::Activation;
pub use dropout::{DropPath, Dropout};
pub use scale::Scale;
