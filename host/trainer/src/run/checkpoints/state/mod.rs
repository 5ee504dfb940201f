//! The parts of a run's state, into a checkpoint and out of it.

pub(in crate::run) mod counters;
pub(in crate::run) mod settings;
pub(in crate::run) mod tensors;
pub(in crate::run) mod values;
