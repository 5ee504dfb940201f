//! Where words for the user go: the host's own and those of hooks.

use std::cell::RefCell;

pub use sconce_plugin_api::ext::Level;

use crate::screen;

/// Takes messages, one at a time.
///
/// The source is the name of a hook, or `sconce`.
pub trait Log {
    /// Takes one message, which may have several lines.
    fn log(&self, level: Level, source: &str, message: &str);

    /// How many columns the terminal has that messages go to; 0 where they go to none.
    fn columns(&self) -> u16 {
        0
    }

    /// Shows a line below all messages, in the place of the one before; an empty one takes it away.
    /// Nothing happens where there is no terminal.
    fn status(&self, text: &str) {
        let _ = text;
    }
}

/// Writes to standard error: warnings marked with their source, everything else as it is.
#[derive(Clone, Copy, Debug)]
pub struct StderrLog {
    /// Messages above this level are left out.
    pub level: Level,
}

impl Log for StderrLog {
    fn log(&self, level: Level, source: &str, message: &str) {
        if level > self.level {
            return;
        }
        let line = match level {
            Level::Warn => format!("warning: {source}: {message}\n"),
            Level::Info => format!("{message}\n"),
            Level::Debug => format!("debug: {source}: {message}\n"),
        };
        screen::message(&line);
    }

    fn columns(&self) -> u16 {
        screen::columns()
    }

    fn status(&self, text: &str) {
        screen::status(text);
    }
}

/// Keeps what was said, for tests and for programs with a screen of their own.
#[derive(Debug, Default)]
pub struct MemoryLog {
    lines: RefCell<Vec<(Level, String, String)>>,
}

impl MemoryLog {
    /// Level, source and message of everything said so far.
    pub fn lines(&self) -> Vec<(Level, String, String)> {
        self.lines.borrow().clone()
    }
}

impl Log for MemoryLog {
    fn log(&self, level: Level, source: &str, message: &str) {
        let line = (level, source.to_owned(), message.to_owned());
        self.lines.borrow_mut().push(line);
    }
}

impl<L: Log + ?Sized> Log for &L {
    fn log(&self, level: Level, source: &str, message: &str) {
        (**self).log(level, source, message);
    }

    fn columns(&self) -> u16 {
        (**self).columns()
    }

    fn status(&self, text: &str) {
        (**self).status(text);
    }
}
