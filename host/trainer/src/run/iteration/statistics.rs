//! Running statistics of batch norms: merged after each forward pass, all in one launch on a GPU.

use std::cell::RefCell;

use crate::nn::StatisticsLog;

/// Merges what the batch norms of a pass have recorded so far.
pub(in crate::run) fn merge(log: &RefCell<StatisticsLog>) -> candle_core::Result<()> {
    let mut log = log.borrow_mut();
    let merged = log.apply();
    log.clear();
    merged
}

/// Applies the statistics that an update's batches have recorded on all ranks, in the order of batches, so that they have
/// the bits of one process.
pub(in crate::run) fn apply(
    log: &RefCell<StatisticsLog>,
    batches: &[Vec<u8>],
) -> candle_core::Result<()> {
    let log = log.borrow();
    batches.iter().try_for_each(|batch| log.apply_bytes(batch))
}
