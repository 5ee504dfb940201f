//! Commands that make data ready for training.

pub(in crate::cli) mod tokenize;
