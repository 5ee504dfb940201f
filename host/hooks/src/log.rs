//! Destinations of messages for the user: the host's own and those of hooks.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

pub use sconce_plugin_api::ext::Level;

use sconce_manifest::{printable, screen};

/// Receives messages, one at a time.
///
/// The source of a message is the name of a hook, or `sconce`.
pub trait Log {
    /// Takes one message, possibly of several lines.
    fn log(&self, level: Level, source: &str, message: &str);

    /// Width in columns of the terminal that shows the messages; 0 if there is none.
    fn columns(&self) -> u16 {
        0
    }

    /// Shows a line below all messages, replacing the previous one; an empty text removes it. Does
    /// nothing without a terminal.
    fn status(&self, text: &str) {
        let _ = text;
    }
}

/// Log that writes to standard error.
#[derive(Clone, Copy, Debug)]
pub struct StderrLog {
    /// Messages above this level are dropped.
    pub level: Level,
    /// Output format.
    pub form: MessageFormat,
}

/// Output format of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFormat {
    /// Lines for people: warnings are marked, and each line of a hook's message is prefixed with the
    /// hook's name.
    Text,
    /// One JSON object per message: `time` (seconds since 1970), `level`, `source`, `message`.
    Json,
}

/// Source of the host's own messages.
const HOST: &str = "sconce";

impl MessageFormat {
    /// Formats a message, including its line break.
    pub fn line(self, level: Level, source: &str, message: &str) -> String {
        match self {
            MessageFormat::Text => text(level, source, message),
            MessageFormat::Json => {
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
                format!("{}\n", printable::json(&object.to_string()))
            }
        }
    }
}

/// Formats a message as lines for people. Each line of a hook's message is prefixed with the hook's
/// name, and continuation lines of the host's are indented, so no text from outside can pass for a
/// separate message.
fn text(level: Level, source: &str, message: &str) -> String {
    let mark = match level {
        Level::Warn => "warning: ",
        Level::Info => "",
        Level::Debug => "debug: ",
    };
    let first = if source == HOST && level == Level::Info {
        String::new()
    } else {
        format!("{mark}{}: ", printable::one_line(source))
    };
    let message = printable::lines(message);
    let mut text = String::with_capacity(message.len() + 32);
    for (index, line) in message.split('\n').enumerate() {
        text.push_str(match index {
            0 => &first,
            _ if source != HOST => &first,
            _ if line.starts_with(' ') => "",
            _ => "  ",
        });
        text.push_str(line);
        text.push('\n');
    }
    text
}

impl Log for StderrLog {
    fn log(&self, level: Level, source: &str, message: &str) {
        if level > self.level {
            return;
        }
        screen::message(&self.form.line(level, source, message));
    }

    fn columns(&self) -> u16 {
        // A status line is meant for a person reading messages at level info or above.
        if self.form == MessageFormat::Json || self.level < Level::Info {
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

/// Log that keeps its messages in memory, for tests and for programs with a screen of their own.
#[derive(Debug, Default)]
pub struct MemoryLog {
    lines: RefCell<Vec<(Level, String, String)>>,
}

impl MemoryLog {
    /// Level, source and message of everything logged so far.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_a_hook_has_its_name_and_none_steers_the_terminal() {
        let hostile = "\x1b[2J\u{9b}1m\nerror: the run failed\r\u{202e}";
        let expected = "bad: \\u{1b}[2J\\u{9b}1m\nbad: error: the run failed\\r\\u{202e}\n";
        assert_eq!(
            MessageFormat::Text.line(Level::Info, "bad", hostile),
            expected
        );
        let warned = MessageFormat::Text.line(Level::Warn, "a\nb", "one\ntwo");
        assert_eq!(warned, "warning: a\\nb: one\nwarning: a\\nb: two\n");
        let json = MessageFormat::Json.line(Level::Warn, "bad", hostile);
        assert!(
            !json.trim_end().contains(printable::breaks_line),
            "{json:?}"
        );
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(read["message"], hostile);
    }

    #[test]
    fn further_lines_of_the_host_are_indented() {
        let told = "hooks:\n  a\nerror: forged by a name";
        let expected = "hooks:\n  a\n  error: forged by a name\n";
        assert_eq!(MessageFormat::Text.line(Level::Info, HOST, told), expected);
        let warned = MessageFormat::Text.line(Level::Warn, HOST, "one");
        assert_eq!(warned, "warning: sconce: one\n");
    }
}
