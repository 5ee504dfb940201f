//! What has happened to a run's hooks: in its record and its checkpoints.

use serde::{Deserialize, Serialize};

use super::LibraryId;

/// Most changes of a run's hooks; later ones are refused. Of refusals it has as many records at most.
pub const MOST_RECORDS: usize = 100;

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
