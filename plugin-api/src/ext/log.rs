//! `sconce.log/1`: messages of hooks, shown by the host, which manages the terminal.

use super::extension;

/// Messages of hooks, shown by the host, which manages the terminal.
#[extension("sconce.log/1")]
pub trait Log {
    /// Logs a message at the level of this number; unknown levels are treated as the level for information.
    #[posted]
    fn log(&self, level: u32, message: &str);
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
