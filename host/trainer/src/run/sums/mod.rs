//! What batches add up to, over a pass or an update, on one process or several.

pub(in crate::run) mod batch_sums;
pub(in crate::run) mod loss_weight;
