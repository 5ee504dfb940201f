//! How many batches make an update.

use sconce_plugin_api::prelude::*;

/// Batches per update: on each rank, as the passes' numbers of batches are. At least 1.
pub(crate) fn batches_per_update(setup: &Setup<'_>) -> Result<u64> {
    if let Some(plan) = setup.plan()? {
        return Ok(plan.accumulate.max(1));
    }
    // Hosts before 1.2 have no plan.
    let manifest = setup.manifest()?;
    let accumulate = manifest.pointer("/train/accumulate");
    let accumulate = accumulate.and_then(|value| value.to_string().parse().ok());
    Ok(accumulate.unwrap_or(1).max(1))
}
