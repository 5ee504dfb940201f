//! Losses, with the gradients of what they are given.

pub(crate) mod cross_entropy;
pub(crate) mod given;
pub(crate) mod squared_error;
