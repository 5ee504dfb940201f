//! What entries of the manifest decide for the hooks, in the host's terms.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens when a hook returns an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// End the run, calling `on_exception` and `after_run`.
    #[default]
    Fail,
    /// Disable the hook for the rest of the run, which continues.
    Disable,
    /// Report the fault and continue the run with the hook.
    Ignore,
}

/// Policy when a hook panics, or when the process of an isolated hook crashes or is killed at its time limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCrash {
    /// The run ends, calling `on_exception` and `after_run` of the other hooks.
    #[default]
    Fail,
    /// The hook is switched off for the rest of the run.
    Disable,
    /// The hook is restarted with its last state, at most this many times; the next crash switches it off.
    Restart(u32),
}

/// When a hook's library is loaded again in mid-run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReloadPolicy {
    /// When `sconce reload` or a key in the live view asks for it.
    #[default]
    Asked,
    /// Also by itself, when its file has changed.
    Changed,
    /// Never. So it is for every entry with `sha256`.
    Never,
}

/// Filter that calls a hook in every n-th iteration, update or epoch: in those whose number,
/// counted from 1, minus `offset` is a multiple of n.
///
/// It applies to the points within an iteration, the batches of an update, or an epoch; at all
/// other points the hook is always called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Every {
    /// Unit that is counted.
    pub unit: Unit,
    /// Interval n; at least 1.
    pub count: u64,
    /// Offset: 0 selects the n-th, the 2n-th and so on.
    pub offset: u64,
}

/// Unit counted by [`Every`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Batches: of the whole training, or of the current pass in other phases.
    Iterations,
    /// Optimizer steps; a hook is called for all of a step's batches or for none.
    Updates,
    /// Training epochs, each including its validation.
    Epochs,
}
