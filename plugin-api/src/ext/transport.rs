//! `sconce.transport/1`: what moves bytes between the processes of a run. A table of the plugin's.
//!
//! Hosts ask the plugin's root for it (`query`). Authors in Rust implement [`Transport`](crate::transport::Transport).

use std::ffi::c_void;

use abi_stable::std_types::RString;

use super::Extension;
use crate::abi::{ErrorAbi, TextAbi};

/// Function table of `sconce.transport/1`. Frozen; the keys of the facts are open.
///
/// Every process of a run, a *rank*, calls the same functions in the same order, with lengths that fit. The calls are
/// made one after the other, though not always on the thread that opened the transport. All lengths and offsets are in
/// bytes; a list of offsets has one more element than there are ranks, begins with 0, and does not decrease. A pointer
/// to no bytes may be null. After an error, only `abort` and `close` are called.
#[repr(C)]
#[derive(Debug)]
pub struct TransportTable {
    /// Opens the transport of this name, which connects all ranks.
    ///
    /// `config` is a JSON object, the manifest's `distributed`. A call that waits for other ranks longer than
    /// `timeout` seconds should fail. `facts` is set to a JSON object: `rank`, from 0; `size`, at least 1; `hosts`, the
    /// machine's name for each rank; `about`, what moves the bytes, with its version.
    pub open: unsafe extern "C" fn(
        name: TextAbi,
        config: TextAbi,
        timeout: f64,
        instance: *mut *mut c_void,
        facts: *mut RString,
        error: *mut ErrorAbi,
    ) -> u32,
    /// Copies `length` bytes from the rank `root` to all others.
    pub broadcast: unsafe extern "C" fn(
        instance: *mut c_void,
        data: *mut u8,
        length: u64,
        root: u64,
        error: *mut ErrorAbi,
    ) -> u32,
    /// Copies the `length` bytes at each rank's `own` to `all` on all ranks, in the order of ranks.
    pub gather: unsafe extern "C" fn(
        instance: *mut c_void,
        own: *const u8,
        length: u64,
        all: *mut u8,
        error: *mut ErrorAbi,
    ) -> u32,
    /// Sends the bytes between `send_at[r]` and `send_at[r + 1]` to each rank `r`, and receives its bytes for this rank
    /// between `receive_at[r]` and `receive_at[r + 1]`.
    pub exchange: unsafe extern "C" fn(
        instance: *mut c_void,
        send: *const u8,
        send_at: *const u64,
        receive: *mut u8,
        receive_at: *const u64,
        error: *mut ErrorAbi,
    ) -> u32,
    /// Copies each rank `r`'s bytes between `at[r]` and `at[r + 1]` to all ranks, in place; `at` is the same on all.
    pub collect: unsafe extern "C" fn(
        instance: *mut c_void,
        data: *mut u8,
        at: *const u64,
        error: *mut ErrorAbi,
    ) -> u32,
    /// Ends all ranks at once with this exit code. Returns only if that is not possible.
    pub abort: unsafe extern "C" fn(instance: *mut c_void, code: u32),
    /// Ends the connection; `instance` is invalid afterwards, even if this fails. All ranks call it, unless one failed.
    pub close: unsafe extern "C" fn(instance: *mut c_void, error: *mut ErrorAbi) -> u32,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for TransportTable {
    const ID: &'static str = "sconce.transport/1";
}

impl TransportTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
