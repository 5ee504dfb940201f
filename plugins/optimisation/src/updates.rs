//! How many updates an epoch has.

use sconce_plugin_api::prelude::*;

/// Number of updates in an epoch, with the manifest's number of batches in each: the same on any number of ranks, and
/// whatever another hook makes of it in mid-run.
pub(crate) struct UpdateCount {
    planned: Option<u64>,
    accumulate: u64,
}

impl UpdateCount {
    pub(crate) fn new(setup: &Setup<'_>) -> Result<UpdateCount> {
        let planned = setup.plan()?;
        let planned = planned.map(|plan| plan.batches().div_ceil(plan.accumulate.max(1)));
        let manifest = setup.manifest()?;
        let accumulate = manifest.pointer("/train/accumulate");
        let accumulate = accumulate.and_then(|value| value.to_string().parse().ok());
        Ok(UpdateCount {
            planned,
            accumulate: accumulate.unwrap_or(1).max(1),
        })
    }

    /// Returns the number; from the pass itself where there is no plan.
    pub(crate) fn in_epoch(&self, task: &TaskView<'_>) -> u64 {
        self.planned
            .unwrap_or_else(|| task.batches().div_ceil(self.accumulate))
    }
}
