//! What training batches contribute to the result of a pass, on whichever rank they are processed.
//!
//! Where several processes train together, each rank sees its own batches of an update: a contiguous block. Their
//! contributions are gathered in the last iteration of the update. In the order of ranks they are in the order of batches,
//! so that results have the bits of a run of one process, and so that hooks have the same state on all ranks whenever a
//! checkpoint is saved.

use sconce_plugin_api::moment::HasBatch;
use sconce_plugin_api::prelude::*;
use serde::de::DeserializeOwned;

/// Whether the batches of the current pass are divided among ranks, of which each sees its own.
pub(crate) fn are_divided(task: &TaskView<'_>) -> bool {
    task.phase() == Phase::Train && task.ranks().size() > 1
}

/// Whether the files of a pass are written here: they are the same on all ranks.
pub(crate) fn writes_files(task: &TaskView<'_>) -> bool {
    task.ranks().rank() == 0
}

/// Contributions of the batches that this rank has seen of the current update.
#[derive(Debug)]
pub(crate) struct Contributions<T>(Vec<T>);

impl<T> Default for Contributions<T> {
    fn default() -> Self {
        Contributions(Vec::new())
    }
}

impl<T: Serialize + DeserializeOwned> Contributions<T> {
    /// Adds the contribution of the current batch, if it has one, and returns those of all ranks once the update's batches
    /// are all done. To be called in every iteration of a pass whose batches [are divided](are_divided).
    #[track_caller]
    pub(crate) fn exchange(
        &mut self,
        task: &At<'_, impl HasBatch>,
        own: Option<T>,
    ) -> Result<Vec<T>> {
        let ranks = task.ranks();
        self.0.extend(own.filter(|_| !ranks.is_repeated()));
        if !task.is_update_due() {
            return Ok(Vec::new());
        }
        let own = std::mem::take(&mut self.0);
        Ok(ranks.gather_values(&own)?.into_iter().flatten().collect())
    }
}
