//! What the batches of an update have given, put together after it: in the order of batches, the same on any number of ranks.

use sconce_plugin_api::prelude::*;
use serde::de::DeserializeOwned;

/// What each of this rank's batches has given in the update in progress.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UpdateParts<T>(Vec<T>);

impl<T> Default for UpdateParts<T> {
    fn default() -> Self {
        UpdateParts(Vec::new())
    }
}

impl<T: Serialize + DeserializeOwned> UpdateParts<T> {
    /// Adds a batch's, unless it repeats another rank's.
    pub(crate) fn add(&mut self, task: &TaskView<'_>, part: T) {
        if !task.ranks().is_repeated() {
            self.0.push(part);
        }
    }

    /// Those of all ranks' batches, after an update. Each rank has a contiguous block of its batches.
    pub(crate) fn gather(&mut self, task: &AfterUpdate<'_>) -> Result<Vec<T>> {
        let own = std::mem::take(&mut self.0);
        let ranks = task.ranks();
        if ranks.size() == 1 {
            return Ok(own);
        }
        let all: Vec<Vec<T>> = ranks.gather_values(&own)?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Ends a batch: what an update has not taken that was skipped goes with it.
    pub(crate) fn end_batch(&mut self, task: &AfterIter<'_>) {
        if task.phase() == Phase::Train && task.is_update_due() {
            self.0.clear();
        }
    }
}
