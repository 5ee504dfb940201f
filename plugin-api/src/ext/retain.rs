//! `sconce.retain/1`: tensors whose memory outlives the call, for languages that count references.
//!
//! A tensor of `sconce.tensors/1` is borrowed for the call. A garbage-collected language can't promise that nothing
//! refers to it afterwards; with this extension it can keep the memory instead.

use std::ffi::c_void;

use super::{Extension, TensorAbi};
use crate::abi::ErrorAbi;

/// Function table of `sconce.retain/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct RetainTable {
    /// As `at` of [`TensorsTable`](super::TensorsTable), but the elements, shape and strides stay at their addresses
    /// until `token` is released.
    ///
    /// The name is borrowed for the call. The host goes on using the memory: after the call its elements may change at
    /// any time, and writing to them is an error even where `writable` was granted.
    pub retain: unsafe extern "C" fn(
        context: *const c_void,
        collection: u32,
        index: usize,
        writable: u32,
        tensor: *mut TensorAbi,
        token: *mut *mut c_void,
        error: *mut ErrorAbi,
    ) -> u32,
    /// Releases the memory behind a token, once; does nothing for null. May be called from any thread and at any time.
    pub release: unsafe extern "C" fn(token: *mut c_void),
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for RetainTable {
    const ID: &'static str = "sconce.retain/1";
}

impl RetainTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
