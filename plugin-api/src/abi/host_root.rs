//! The root structure that the host provides.

use std::ffi::c_void;

use abi_stable::StableAbi;

use super::TextAbi;

/// The root structure that the host provides to every hook at its creation. Frozen.
#[repr(C)]
#[derive(StableAbi)]
pub struct HostRoot {
    /// [`ABI_EPOCH`](super::ABI_EPOCH) that the host was built with.
    pub abi_epoch: u32,
    /// Name and version of the host, such as `sconce 0.1.0`; lives as long as the process.
    pub version: TextAbi,
    /// The version of `sconce-plugin-api` that the host was built with; lives as long as the process.
    pub api_version: TextAbi,
    /// The host's table for an extension, or null if it has none. The table lives as long as the process.
    pub query: unsafe extern "C" fn(extension: TextAbi) -> *const c_void,
}
