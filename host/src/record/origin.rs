//! What a run's results came from.

use serde_json::Value;

use crate::checkpoint::HookRecord;
use crate::manifest::{Manifest, TaskSource};
use crate::session::{Checked, StartFailure};
use crate::team::Team;

/// Returns the manifest with all defaults, as it is after writing and reading it back: floats in
/// their shortest decimal form need not round-trip to the last bit.
pub(crate) fn resolved(manifest: &Manifest) -> Result<Value, StartFailure> {
    let text = manifest.resolved().to_string();
    Ok(serde_json::from_str(&text)?)
}

/// What a run's results came from.
pub(crate) struct Origin<'a> {
    /// The manifest with all defaults filled in.
    pub(crate) manifest: Value,
    pub(crate) hooks: Vec<HookRecord>,
    pub(crate) task: TaskSource,
    pub(crate) team: Option<&'a Team>,
}

impl<'a> Origin<'a> {
    pub(crate) fn of(
        checked: &Checked,
        task: TaskSource,
        team: Option<&'a Team>,
    ) -> Result<Origin<'a>, StartFailure> {
        let hooks = checked.hooks.iter();
        Ok(Origin {
            manifest: resolved(&checked.manifest)?,
            hooks: hooks.map(|hook| hook.spec.record()).collect(),
            task,
            team,
        })
    }
}
