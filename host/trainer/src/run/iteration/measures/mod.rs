//! Losses and metrics of batches.

pub(in crate::run) mod losses;
mod measuring;

pub(in crate::run) use measuring::{ComputedBatch, Measures};
