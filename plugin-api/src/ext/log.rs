//! `sconce.log/1`: messages of hooks, shown by the host, which manages the terminal.

use std::ffi::c_void;

use super::{Extension, Tables};
use crate::abi::TextAbi;

/// Function table of `sconce.log/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct LogTable {
    /// Logs `message` at the level of this number; unknown levels are treated as [`Level::Info`].
    pub log: unsafe extern "C" fn(context: *const c_void, level: u32, message: TextAbi) -> u32,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for LogTable {
    const ID: &'static str = "sconce.log/1";
}

impl LogTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Level {
    /// Does not end the run, but the user should know.
    Warn = 1,
    /// Information that the user asked for by configuring the hook.
    Info = 2,
    /// For debugging; hidden by default.
    Debug = 3,
}

impl Tables {
    /// Logs through the host; does nothing if the host provides no log.
    pub(crate) fn log(&self, context: *const c_void, level: Level, message: &str) {
        if let Some(table) = self.log {
            // SAFETY: the context is the one that the host provided for this call; the message is borrowed for
            // the call.
            unsafe { (table.log)(context, level as u32, TextAbi::new(message)) };
        }
    }
}

impl Level {
    /// The level with this number; [`Level::Info`] for unknown numbers.
    pub const fn from_number(number: u32) -> Level {
        match number {
            1 => Level::Warn,
            3 => Level::Debug,
            _ => Level::Info,
        }
    }
}
