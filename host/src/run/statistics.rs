//! Running statistics of batch norms on several ranks: every rank applies those of all batches of an update, in the
//! order of batches, so that they have the bits of one process.

use super::failure::Leave;
use super::{RunError, Trainer};

impl Trainer<'_> {
    /// Applies the statistics that an update's batches have recorded, in the order of batches.
    pub(super) fn track_statistics(&mut self, batches: &[Vec<u8>]) -> Result<(), Leave> {
        let log = self.statistics.borrow();
        let mut batches = batches.iter();
        let tracked = batches.try_for_each(|batch| log.apply_bytes(batch));
        drop(log);
        tracked.map_err(|error| {
            RunError::task("tracking batch norms' statistics", &self.position, error).into()
        })
    }
}
