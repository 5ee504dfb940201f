//! What single mount points bring beside the view.

use abi_stable::StableAbi;

use super::TextAbi;

/// The payload of `after_run`. Frozen.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct OutcomeAbi {
    /// 0 completed, 1 stopped, 2 failed, 3 interrupted by a signal, whose name is the reason.
    pub kind: u32,
    /// Why it was stopped or how it failed; empty when completed.
    pub reason: TextAbi,
}

/// The payload of `epoch_profile`. Frozen. Times are in seconds.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct ProfileAbi {
    /// From `before_epoch` to `after_epoch`, both counted in.
    pub total: f64,
    /// Waiting for batches.
    pub data: f64,
    /// Forward passes.
    pub forward: f64,
    /// Losses and metrics.
    pub loss: f64,
    /// Backward passes.
    pub backward: f64,
    /// Steps of the optimizer.
    pub update: f64,
    /// One entry for each hook of the run, in the manifest's order.
    pub hooks: *const HookTimeAbi,
    /// How many.
    pub hook_count: usize,
}

/// A hook's part in a [`ProfileAbi`]. Frozen.
#[repr(C)]
#[derive(Debug, Clone, Copy, StableAbi)]
pub struct HookTimeAbi {
    /// The hook's name.
    pub name: TextAbi,
    /// How often it was called.
    pub calls: u64,
    /// All its calls together; estimated from a sample where calls are short and many.
    pub seconds: f64,
    /// The longest of the calls that were timed.
    pub longest: f64,
}

/// The payload of `on_exception`. Frozen.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct FailureAbi {
    /// 0 the task, 1 the data, 2 a hook, 3 a signal, 4 the host.
    pub origin: u32,
    /// The error, whole.
    pub message: TextAbi,
    /// The name of the hook that failed, or empty.
    pub hook: TextAbi,
}

/// The payload of `module_forward` and `module_backward`. Frozen.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct ModuleAbi {
    /// The module's name, as `fc1`.
    pub name: TextAbi,
    /// What it is, as `linear`.
    pub kind: TextAbi,
}

/// The payload of the three checkpoint points. Frozen.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct CheckpointAbi {
    /// The absolute path of the checkpoint's directory.
    pub path: TextAbi,
    /// Its tag.
    pub tag: TextAbi,
    /// The name of the hook that asked for it, or empty.
    pub hook: TextAbi,
    /// Why it could not be written; empty where it was.
    pub error: TextAbi,
    /// Its size in bytes; 0 before it is written.
    pub bytes: u64,
    /// How long writing or reading it took, in seconds.
    pub seconds: f64,
}
