//! `sconce.claims/1`: what only one hook of a run can have.

use std::ffi::c_void;

use super::Extension;
use crate::abi::{ErrorAbi, TextAbi};

/// The table of `sconce.claims/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct ClaimsTable {
    /// Claims something for the hook that is being created. Where another hook of the run has it already, the
    /// status is not 0, and the message names both.
    pub claim:
        unsafe extern "C" fn(context: *const c_void, what: TextAbi, error: *mut ErrorAbi) -> u32,
}

// SAFETY: this is the table of that identifier.
unsafe impl Extension for ClaimsTable {
    const ID: &'static str = "sconce.claims/1";
}

impl ClaimsTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
