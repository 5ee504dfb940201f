//! `sconce.claims/1`: claims on resources that only one hook of a run can have.

use std::ffi::c_void;

use super::Extension;
use crate::abi::{ErrorAbi, TextAbi};

/// Function table of `sconce.claims/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct ClaimsTable {
    /// Claims a resource, named by a text, for the hook that is being created.
    ///
    /// If another hook of the run has claimed it, the status is not 0 and the message names both hooks.
    pub claim:
        unsafe extern "C" fn(context: *const c_void, what: TextAbi, error: *mut ErrorAbi) -> u32,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for ClaimsTable {
    const ID: &'static str = "sconce.claims/1";
}

impl ClaimsTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
