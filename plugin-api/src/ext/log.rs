//! `sconce.log/1`: a hook's words go through the host, which knows where the screen is.

use std::ffi::c_void;

use super::Extension;
use crate::abi::TextAbi;

/// The table of `sconce.log/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct LogTable {
    /// Logs `message` at a [`Level`]'s number. An unknown level counts as information.
    pub log: unsafe extern "C" fn(context: *const c_void, level: u32, message: TextAbi) -> u32,
}

// SAFETY: this is the table of that identifier.
unsafe impl Extension for LogTable {
    const ID: &'static str = "sconce.log/1";
}

impl LogTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}

/// How loud a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Level {
    /// Something that the run survives but the user should know.
    Warn = 1,
    /// What the user has asked to see.
    Info = 2,
    /// For whoever looks for a fault; hidden by default.
    Debug = 3,
}

impl Level {
    /// The level with this number; unknown numbers are information.
    pub const fn from_number(number: u32) -> Level {
        match number {
            1 => Level::Warn,
            3 => Level::Debug,
            _ => Level::Info,
        }
    }
}
