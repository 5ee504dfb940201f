//! What has happened to a run's hooks: in its record and its checkpoints.

use serde::{Deserialize, Serialize};

/// Most changes of a run's hooks; later ones are refused. Of refusals it has as many records at most.
pub const MOST_RECORDS: usize = 100;

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
    pub(crate) fn shown(&self) -> String {
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

/// An event in the life of a run's hooks, in its record and its checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum HistoryRecord {
    /// A hook's library was loaded again.
    Reload {
        /// Name of the hook.
        hook: String,
        /// Training epochs finished.
        epoch: u64,
        /// Training iterations finished.
        iteration: u64,
        /// Updates finished.
        update: u64,
        /// The library before.
        from: LibraryId,
        /// The library from then on.
        to: LibraryId,
        /// Size of the state that was carried over.
        state_bytes: u64,
    },
    /// A new library was refused, and the old one goes on.
    ReloadRefused {
        /// Name of the hook.
        hook: String,
        /// Training epochs finished.
        epoch: u64,
        /// Training iterations finished.
        iteration: u64,
        /// Why.
        reason: String,
    },
    /// A hook was restarted, after its process had ended.
    Restart {
        /// Name of the hook.
        hook: String,
        /// Training epochs finished.
        epoch: u64,
        /// Training iterations finished.
        iteration: u64,
    },
}

impl HistoryRecord {
    /// Whether nothing was changed.
    pub fn is_refusal(&self) -> bool {
        matches!(self, HistoryRecord::ReloadRefused { .. })
    }
}
