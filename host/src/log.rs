//! Where words for the user go: the host's own and those of hooks.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

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

/// Writes to standard error.
#[derive(Clone, Copy, Debug)]
pub struct StderrLog {
    /// Messages above this level are left out.
    pub level: Level,
    /// How they are written.
    pub form: Form,
}

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Warnings marked with their source, everything else as it is.
    Text,
    /// One JSON object per message: `time` (seconds since 1970), `level`, `source`, `message`.
    Json,
}

impl Form {
    /// A message with its line break.
    fn line(self, level: Level, source: &str, message: &str) -> String {
        match (self, level) {
            (Form::Text, Level::Warn) => format!("warning: {source}: {message}\n"),
            (Form::Text, Level::Info) => format!("{message}\n"),
            (Form::Text, Level::Debug) => format!("debug: {source}: {message}\n"),
            (Form::Json, _) => {
                let time = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                let level = match level {
                    Level::Warn => "warn",
                    Level::Info => "info",
                    Level::Debug => "debug",
                };
                let object = json!({
                    "time": time.as_secs_f64(), "level": level, "source": source, "message": message,
                });
                format!("{object}\n")
            }
        }
    }
}

impl Log for StderrLog {
    fn log(&self, level: Level, source: &str, message: &str) {
        if level > self.level {
            return;
        }
        screen::message(&self.form.line(level, source, message));
    }

    fn columns(&self) -> u16 {
        // A line that is drawn anew is for people, and for those who want to hear something.
        if self.form == Form::Json || self.level < Level::Info {
            return 0;
        }
        screen::columns()
    }

    fn status(&self, text: &str) {
        if self.columns() > 0 {
            screen::status(text);
        }
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
