//! `sconce.screen/1`: the terminal that messages go to, and its status line.

use std::ffi::c_void;

use super::Extension;
use crate::abi::TextAbi;

/// Function table of `sconce.screen/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct ScreenTable {
    /// Width of the terminal in columns; 0 if messages do not go to a terminal.
    pub columns: unsafe extern "C" fn(context: *const c_void) -> u32,
    /// Sets the status line below all messages, replacing the previous one; empty text removes it.
    pub status: unsafe extern "C" fn(context: *const c_void, text: TextAbi) -> u32,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for ScreenTable {
    const ID: &'static str = "sconce.screen/1";
}

impl ScreenTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
