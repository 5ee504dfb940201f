//! `sconce.screen/1`: the terminal that messages go to, and its last line.

use std::ffi::c_void;

use super::Extension;
use crate::abi::TextAbi;

/// The table of `sconce.screen/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct ScreenTable {
    /// How many columns the terminal has; 0 where messages go to none.
    pub columns: unsafe extern "C" fn(context: *const c_void) -> u32,
    /// Shows a line below all messages, in the place of the one before; an empty one takes it away.
    pub status: unsafe extern "C" fn(context: *const c_void, text: TextAbi) -> u32,
}

// SAFETY: this is the table of that identifier.
unsafe impl Extension for ScreenTable {
    const ID: &'static str = "sconce.screen/1";
}

impl ScreenTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
