//! The work on batches: forward pass, loss and metrics, backward pass, and the steps of updates.

pub(in crate::run) mod audit;
pub(in crate::run) mod feed;
pub(in crate::run) mod finite;
pub(in crate::run) mod hook_passes;
pub(in crate::run) mod learning;
pub(in crate::run) mod measures;
pub(in crate::run) mod modules;
pub(in crate::run) mod recomputed_statistics;
pub(in crate::run) mod record;
pub(in crate::run) mod staging;
pub(in crate::run) mod statistics;
pub(in crate::run) mod stepper;
pub(in crate::run) mod surroundings;
pub(in crate::run) mod update;
