//! A created hook: an opaque instance and its function table.

use std::ffi::c_void;

use abi_stable::StableAbi;
use abi_stable::std_types::RVec;

use super::{ErrorAbi, HostRoot, TextAbi, ViewAbi};

/// A hook as returned by `create`. Frozen.
///
/// `instance` belongs to the plugin; the host passes it to [`HookTable::drop`] exactly once.
#[repr(C)]
#[derive(Debug, Clone, Copy, StableAbi)]
pub struct HookAbi {
    /// Pointer to the plugin's object.
    pub instance: *mut c_void,
    /// Its function table, which lives as long as the process.
    pub table: *const HookTable,
}

/// Function table of a hook. Frozen.
///
/// Each function returns a [`Status`](super::Status) number and fills in `error` if that is not 0. None
/// unwinds.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct HookTable {
    /// Calls the hook at the mount point with number `point`.
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
    /// Restores a state that `save_state` wrote; the `length` bytes at `state` are borrowed.
    pub load_state: unsafe extern "C" fn(
        instance: *mut c_void,
        state: *const u8,
        length: usize,
        error: *mut ErrorAbi,
    ) -> u32,
    /// Drops the hook; `instance` is invalid afterwards, even if this fails.
    pub drop: unsafe extern "C" fn(instance: *mut c_void, error: *mut ErrorAbi) -> u32,
}

/// Information for a hook's creation; borrowed for the call of `create`. Frozen.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct SetupAbi {
    /// The host's root; lives as long as the process.
    pub host: *const HostRoot,
    /// Opaque argument for the host's functions, like [`ViewAbi::context`].
    pub context: *const c_void,
    /// Unique name of the manifest entry.
    pub name: TextAbi,
    /// Absolute path of the run's output directory.
    pub run_directory: TextAbi,
    /// The resolved manifest as JSON.
    pub manifest: TextAbi,
    /// The run's seed.
    pub seed: u64,
}
