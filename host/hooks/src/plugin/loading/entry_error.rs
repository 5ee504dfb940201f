//! Errors returned by a plugin's entry points.

use std::borrow::Cow;

use abi_stable::std_types::RString;
use sconce_plugin_api::abi::{ErrorAbi, Status};

use crate::bridge::NO_MESSAGE;

/// Status of a call in which the hook's process ended. Never that of a plugin: those are passed on as errors.
pub(crate) const ENDED: u32 = u32::MAX;

/// Error returned by a plugin's entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryError {
    /// A [`Status`] number, as the plugin gave it.
    pub status: u32,
    /// The plugin's message.
    pub message: String,
    /// Location in the plugin's source, or empty.
    pub place: String,
}

impl EntryError {
    /// Whether the plugin's code panicked, rather than returning an error.
    pub fn is_panic(&self) -> bool {
        self.status == Status::PANIC.0
    }

    /// Whether the hook's process has ended; the message begins with how.
    pub fn has_ended(&self) -> bool {
        self.status == ENDED
    }

    /// Copies the error of a hook's proxy, whose process may have ended.
    pub(crate) fn read_apart(status: u32, error: &mut ErrorAbi) -> EntryError {
        if status != ENDED {
            return EntryError::read(status, error);
        }
        EntryError {
            status,
            ..EntryError::read(Status::ERROR.0, error)
        }
    }

    /// Copies the plugin's error; the message is truncated to 4 KiB.
    pub fn read(status: u32, error: &mut ErrorAbi) -> EntryError {
        let error = std::mem::take(error);
        let mut message = shortened(&text_of(&error.message));
        if message.is_empty() {
            message.push_str(NO_MESSAGE);
        }
        if !(Status::ERROR.0..=Status::UNSUPPORTED.0).contains(&status) {
            // It counts as an error, by the rules of the ABI.
            message = format!("{message} (status {status}, which this host doesn't know)");
        }
        EntryError {
            // A plugin's own number does not mean that a process has ended.
            status: if status == ENDED {
                Status::ERROR.0
            } else {
                status
            },
            message,
            place: shortened(&text_of(&error.place)),
        }
    }
}

/// Text from a plugin, which may be invalid UTF-8 despite its type.
pub(in crate::plugin) fn text_of(text: &RString) -> Cow<'_, str> {
    String::from_utf8_lossy(text.as_str().as_bytes())
}

const LONGEST_MESSAGE: usize = 4096;

fn shortened(text: &str) -> String {
    if text.len() <= LONGEST_MESSAGE {
        return text.to_owned();
    }
    let end = (0..=LONGEST_MESSAGE)
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    let head = text.get(..end).unwrap_or_default();
    format!("{head}… ({} bytes in all)", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugins_own_number_does_not_mean_that_a_process_has_ended() {
        let read = EntryError::read(ENDED, &mut ErrorAbi::new());
        assert!(!read.has_ended());
        let expected = format!("{NO_MESSAGE} (status {ENDED}, which this host doesn't know)");
        assert_eq!(read.message, expected);
        assert!(EntryError::read_apart(ENDED, &mut ErrorAbi::new()).has_ended());
        let panic = EntryError::read_apart(Status::PANIC.0, &mut ErrorAbi::new());
        assert!(panic.is_panic() && !panic.has_ended());
    }
}
