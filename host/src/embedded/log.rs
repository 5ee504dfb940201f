//! The run's messages, as events.

use super::Events;
use crate::diagnostic::{Diagnostic, render};
use crate::log::{Level, Log};

/// Source of the host's own messages.
const HOST: &str = "sconce";

/// Log that keeps messages for the thread that waits.
pub(super) struct EventLog<'a> {
    events: &'a Events,
}

impl<'a> EventLog<'a> {
    pub(super) fn new(events: &'a Events) -> EventLog<'a> {
        EventLog { events }
    }

    /// Adds warnings of the host's.
    pub(super) fn warn(&self, warnings: &[Diagnostic]) {
        for warning in warnings {
            let text = render::text(std::slice::from_ref(warning), false);
            let text = text.trim_end();
            let text = text.strip_prefix("warning: ").unwrap_or(text);
            self.events.say(Level::Warn, HOST, text);
        }
    }

    /// Adds information of the host's.
    pub(super) fn info(&self, lines: &[String]) {
        for line in lines {
            self.events.say(Level::Info, HOST, line);
        }
    }
}

impl Log for EventLog<'_> {
    fn log(&self, level: Level, source: &str, message: &str) {
        self.events.say(level, source, message);
    }
}
