//! Losses, with the gradients of what they are given.
//!
//! - `cross_entropy`: of logits; `target_rows`: what each row adds to it
//! - `linear_cross_entropy`: of a linear layer's outputs, which are computed some rows at a time
//! - `squared_error`; `given`: one whose value and gradient are given

pub(crate) mod cross_entropy;
pub(crate) mod given;
pub(crate) mod linear_cross_entropy;
pub(crate) mod squared_error;
mod target_rows;
