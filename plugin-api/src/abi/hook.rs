//! A created hook: an opaque instance and the one entry point for all mount points.

use std::ffi::c_void;

use abi_stable::StableAbi;
use abi_stable::std_types::RVec;

use super::{ErrorAbi, HostRoot, TextAbi, ViewAbi};

/// A hook as `create` hands it over. Frozen.
///
/// `instance` belongs to the plugin; it goes back to [`HookTable::drop`] exactly once.
#[repr(C)]
#[derive(Debug, Clone, Copy, StableAbi)]
pub struct HookAbi {
    /// The plugin's object.
    pub instance: *mut c_void,
    /// Its functions; they live as long as the process.
    pub table: *const HookTable,
}

/// The functions of a hook. Frozen.
///
/// Each answers with a [`Status`](super::Status) number and fills `error` in when that is not 0.
/// None unwinds.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct HookTable {
    /// Calls the hook at the mount point of this number.
    pub call: unsafe extern "C" fn(
        instance: *mut c_void,
        point: u32,
        view: *const ViewAbi,
        error: *mut ErrorAbi,
    ) -> u32,
    /// Writes the hook's state into `state`.
    pub save_state: unsafe extern "C" fn(
        instance: *mut c_void,
        state: *mut RVec<u8>,
        error: *mut ErrorAbi,
    ) -> u32,
    /// Restores a state that `save_state` wrote; `length` bytes at `state`, borrowed.
    pub load_state: unsafe extern "C" fn(
        instance: *mut c_void,
        state: *const u8,
        length: usize,
        error: *mut ErrorAbi,
    ) -> u32,
    /// Drops the hook; `instance` is gone afterwards, also when this fails.
    pub drop: unsafe extern "C" fn(instance: *mut c_void, error: *mut ErrorAbi) -> u32,
}

/// What a hook learns at its creation; borrowed for the call of `create`. Frozen.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct SetupAbi {
    /// The host's root; lives as long as the process.
    pub host: *const HostRoot,
    /// Goes into the host's functions, as [`ViewAbi::context`] does.
    pub context: *const c_void,
    /// The unique name of the manifest entry.
    pub name: TextAbi,
    /// The absolute path of the run's output directory.
    pub run_directory: TextAbi,
    /// The resolved manifest as JSON.
    pub manifest: TextAbi,
    /// The run's seed.
    pub seed: u64,
}
