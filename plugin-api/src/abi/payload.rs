//! Payloads: data that individual mount points have in addition to the view.

use abi_stable::StableAbi;

use super::TextAbi;

/// The payload of `after_run`. Frozen.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct OutcomeAbi {
    /// 0 completed, 1 stopped, 2 failed, 3 interrupted by a signal (the reason is the signal's name).
    pub kind: u32,
    /// Why the run was stopped, or its error; empty if completed.
    pub reason: TextAbi,
}

/// The payload of `epoch_profile`. Frozen. All times are in seconds of wall-clock time.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct ProfileAbi {
    /// From `before_epoch` to `after_epoch`, including both.
    pub total: f64,
    /// Waiting for batches.
    pub data: f64,
    /// Forward passes.
    pub forward: f64,
    /// Losses and metrics.
    pub loss: f64,
    /// Backward passes.
    pub backward: f64,
    /// Optimizer steps.
    pub update: f64,
    /// Array with one entry per hook of the run, in the manifest's order.
    pub hooks: *const HookTimeAbi,
    /// Number of entries in `hooks`.
    pub hook_count: usize,
}

/// Time spent in one hook, in a [`ProfileAbi`]. Frozen.
#[repr(C)]
#[derive(Debug, Clone, Copy, StableAbi)]
pub struct HookTimeAbi {
    /// Name of the hook's manifest entry.
    pub name: TextAbi,
    /// Number of calls.
    pub calls: u64,
    /// Total time of all calls, in seconds; estimated from a sample if calls are short and many.
    pub seconds: f64,
    /// Longest of the calls that were timed, in seconds.
    pub longest: f64,
    /// Time that the host has spent on its requests since the last `epoch_profile`, apart from its calls, in seconds.
    pub requests: f64,
}

/// The payload of `on_exception`. Frozen.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct FailureAbi {
    /// Source of the error: 0 the task, 1 the data, 2 a hook, 3 a signal, 4 the host.
    pub origin: u32,
    /// The complete error message.
    pub message: TextAbi,
    /// The name of the hook that failed, or empty.
    pub hook: TextAbi,
}

/// The payload of `module_forward` and `module_backward`. Frozen.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct ModuleAbi {
    /// Name of the module, such as `fc1`.
    pub name: TextAbi,
    /// Kind of layer, such as `linear`.
    pub kind: TextAbi,
}

/// The payload of the three checkpoint points. Frozen.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct CheckpointAbi {
    /// Absolute path of the checkpoint's directory.
    pub path: TextAbi,
    /// Tag of the checkpoint.
    pub tag: TextAbi,
    /// Name of the hook that requested it, or empty.
    pub hook: TextAbi,
    /// Why it could not be written; empty on success.
    pub error: TextAbi,
    /// Size in bytes; 0 before it is written.
    pub bytes: u64,
    /// Time taken to write or read it, in seconds.
    pub seconds: f64,
    /// Text of the reference to it, once it is on disk; empty otherwise.
    pub reference: TextAbi,
    /// After a checkpoint was loaded: texts of the references in its hooks' states whose checkpoints are missing,
    /// separated by spaces.
    pub missing: TextAbi,
}
