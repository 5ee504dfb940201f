//! The processes that train together, as hooks see them.

use std::fmt;

use sconce_plugin_api::metadata::HookRanks;

/// This process among those that train together, and what hooks on all of them exchange.
pub trait RanksView: fmt::Debug {
    /// Number of this process, from 0.
    fn rank(&self) -> usize;

    /// Number of processes, at least 1.
    fn size(&self) -> usize;

    /// Whether the training batch in progress repeats one of rank 0, because there is none left for this rank.
    fn is_repeated(&self) -> bool {
        false
    }

    /// Copies every rank's `own` to all ranks, in the order of ranks, each as long as `own` here. The hook of this name
    /// asks for it on every rank in the same call; at which points is checked before.
    ///
    /// # Errors
    ///
    /// Why it failed, for the user: a rank has failed, a rank is elsewhere or its bytes have another length.
    fn gather(&self, hook: &str, own: &[u8]) -> Result<Vec<u8>, String>;
}

/// A process that trains alone.
#[derive(Debug)]
pub(super) struct Alone;

impl RanksView for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn gather(&self, _hook: &str, own: &[u8]) -> Result<Vec<u8>, String> {
        Ok(own.to_vec())
    }
}

/// A hook by which the bridge knows who calls.
#[derive(Debug)]
pub(super) struct RegisteredHook {
    pub(super) name: String,
    /// Where it runs.
    pub(super) ranks: HookRanks,
}
