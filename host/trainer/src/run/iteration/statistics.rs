//! Running statistics of batch norms: merged after each forward pass, all in one launch on a GPU.
//!
//! On several ranks, every rank applies those of all batches of an update, in the
//! order of batches, so that they have the bits of one process.

use std::cell::RefCell;

use crate::nn::StatisticsLog;
use crate::run::failure::Leave;
use crate::run::{RunError, Trainer};

/// Merges what the batch norms of a pass have recorded so far.
pub(in crate::run) fn merge(log: &RefCell<StatisticsLog>) -> candle_core::Result<()> {
    let mut log = log.borrow_mut();
    let merged = log.apply();
    log.clear();
    merged
}

impl Trainer<'_> {
    /// Applies the statistics that an update's batches have recorded, in the order of batches.
    pub(in crate::run) fn track_statistics(&mut self, batches: &[Vec<u8>]) -> Result<(), Leave> {
        let log = self.statistics.borrow();
        let mut batches = batches.iter();
        let tracked = batches.try_for_each(|batch| log.apply_bytes(batch));
        drop(log);
        tracked.map_err(|error| {
            RunError::task("tracking batch norms' statistics", &self.position, error).into()
        })
    }
}
