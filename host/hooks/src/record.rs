//! What a run's record and its checkpoints hold of hooks.

use sconce_plugin_api::CheckpointRef;
use serde::{Deserialize, Serialize};

/// Record of a hook of the run, with its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookRecord {
    /// Name of the manifest entry.
    pub name: String,
    /// Hook kind.
    pub kind: String,
    /// Name of the plugin.
    pub plugin: String,
    /// Version of the plugin.
    pub version: String,
    /// SHA-256 of the plugin's file.
    pub sha256: String,
    /// Whether a fault had switched it off.
    pub disabled: bool,
    /// Whether it is from an earlier segment of the run and only its state is kept.
    pub absent: bool,
    /// Its state; `None` if it could not provide one.
    pub state: Option<Vec<u8>>,
    /// The state of each rank's instance, if they differ; `state` is the first rank's.
    pub of_ranks: Vec<Option<Vec<u8>>>,
}

impl HookRecord {
    /// The state for a rank's instance. A rank that the saving run did not have gets the first one's.
    pub fn state_of(&self, rank: usize) -> Option<&[u8]> {
        match self.of_ranks.get(rank) {
            Some(state) => state.as_deref(),
            None => self.state.as_deref(),
        }
    }

    /// The checkpoints that the state refers to, on any rank.
    pub fn references(&self) -> Vec<CheckpointRef> {
        let states = self.of_ranks.iter().flatten().chain(&self.state);
        let mut found: Vec<CheckpointRef> = Vec::new();
        for reference in states.flat_map(|state| CheckpointRef::all_in(state)) {
            if !found.contains(&reference) {
                found.push(reference);
            }
        }
        found
    }
}

/// Identity of a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryId {
    /// Version of the plugin.
    pub version: String,
    /// SHA-256 of the file.
    pub sha256: String,
    /// SHA-256 of the hook's own file, if it is one in Python that the manifest names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
}

impl LibraryId {
    /// Version and first digits for people.
    pub fn shown(&self) -> String {
        let script = self.script.as_deref().map(short);
        let script = script.map(|script| format!(", file {script}"));
        let library = short(&self.sha256);
        format!("{} ({library}{})", self.version, script.unwrap_or_default())
    }
}

/// The first digits of a fingerprint.
fn short(sha256: &str) -> &str {
    sha256.get(..8).unwrap_or(sha256)
}
