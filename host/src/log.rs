//! Where words for the user go: the host's own and those of hooks.

use std::cell::RefCell;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

pub use sconce_plugin_api::ext::Level;

/// Takes messages, one at a time.
///
/// The source is the name of a hook, or `sconce`.
pub trait Log {
    /// Takes one message, which may have several lines.
    fn log(&self, level: Level, source: &str, message: &str);
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
        let line = self.form.line(level, source, message);
        // A closed standard error is no reason to end a training.
        drop(std::io::stderr().lock().write_all(line.as_bytes()));
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
}
