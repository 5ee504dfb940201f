//! Errors returned by a plugin's entry points.

use std::borrow::Cow;

use abi_stable::std_types::RString;
use sconce_plugin_api::abi::{ErrorAbi, Status};

use crate::isolation::ENDED;

/// The message of an error that came without one.
pub(crate) const NO_MESSAGE: &str = "it gave no message";

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
    pub(crate) fn has_ended(&self) -> bool {
        self.status == ENDED
    }

    /// Copies the plugin's error; the message is truncated to 4 KiB.
    pub(crate) fn read(status: u32, error: &mut ErrorAbi) -> EntryError {
        let error = std::mem::take(error);
        let mut message = shortened(&text_of(&error.message));
        if message.is_empty() {
            message.push_str(NO_MESSAGE);
        }
        if !(Status::ERROR.0..=Status::UNSUPPORTED.0).contains(&status) && status != ENDED {
            // An unknown status counts as an error, by the rules of the ABI.
            message = format!("{message} (status {status}, which this host doesn't know)");
        }
        EntryError {
            status,
            message,
            place: shortened(&text_of(&error.place)),
        }
    }
}

/// Text from a plugin, which may be invalid UTF-8 despite its type.
pub(super) fn text_of(text: &RString) -> Cow<'_, str> {
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
