//! References to saved checkpoints, as hooks keep them in their states.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ext::check_tag;
use crate::state::check_count;
use crate::{HookError, Result, bail};

/// First characters of a reference's text.
const PREFIX: &str = "checkpoint:";

/// Hexadecimal digits of a SHA-256.
const DIGITS: usize = 64;

/// A reference to a saved checkpoint: its tag, where in the run it was saved, and the hash of its contents.
///
/// The host returns one at `after_save_checkpoint`, once the checkpoint is on disk, and there is no other way to
/// make one: what a state refers to is therefore saved before that state. A hook whose state names a checkpoint keeps
/// the reference in it. The host recognises references in a state by their text (also those of hooks in Python and C)
/// and keeps what they refer to, even if the tag gets other contents later: until no checkpoint has such a state any
/// more. Before a run resumes from a checkpoint or rolls back to one, each tag has the contents that the states refer
/// to again.
///
/// Its text is `checkpoint:TAG:EPOCH:UPDATE:SHA256`, where the hash is that of the checkpoint's `index.json`, which has
/// the hashes of all other files. In JSON a reference is this text.
///
/// ```
/// use sconce_plugin_api::CheckpointRef;
///
/// let text = format!("checkpoint:best:6:48:{}", "0f".repeat(32));
/// let reference: CheckpointRef = text.parse().unwrap();
/// assert_eq!((reference.tag(), reference.epoch(), reference.update()), ("best", 6, 48));
/// assert_eq!(reference.to_string(), text);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CheckpointRef {
    tag: String,
    epoch: u64,
    update: u64,
    sha256: String,
}

impl CheckpointRef {
    /// The reference to a checkpoint that a host has saved; `sha256` is that of its `index.json`.
    ///
    /// # Errors
    ///
    /// If the tag, a count or the hash is not valid.
    #[doc(hidden)]
    pub fn of_saved(tag: &str, epoch: u64, update: u64, sha256: &str) -> Result<CheckpointRef> {
        check_tag(tag).map_err(HookError::new)?;
        check_count("epoch", epoch)?;
        check_count("update", update)?;
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if sha256.len() != DIGITS || !sha256.bytes().all(is_digit) {
            bail!("a SHA-256 has {DIGITS} digits from 0 to f, found {sha256:?}");
        }
        Ok(CheckpointRef {
            tag: tag.to_owned(),
            epoch,
            update,
            sha256: sha256.to_owned(),
        })
    }

    /// Tag under which the checkpoint is found.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Training epochs finished when it was saved.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Updates finished when it was saved.
    pub fn update(&self) -> u64 {
        self.update
    }

    /// SHA-256 of its `index.json`, in lower-case hexadecimal.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The same contents under another tag, which [`copy_to`](crate::CheckpointRequest::copy_to) gives them.
    ///
    /// # Errors
    ///
    /// If it is not a tag.
    pub fn copied_to(&self, tag: &str) -> Result<CheckpointRef> {
        check_tag(tag).map_err(HookError::new)?;
        Ok(CheckpointRef {
            tag: tag.to_owned(),
            ..self.clone()
        })
    }

    /// All references in the bytes of a state, in order, each once.
    #[doc(hidden)]
    pub fn all_in(state: &[u8]) -> Vec<CheckpointRef> {
        let mut found: Vec<CheckpointRef> = Vec::new();
        let mut rest = state;
        while let Some(place) = find(rest, PREFIX.as_bytes()) {
            rest = rest.get(place..).unwrap_or_default();
            found.extend(at_start_of(rest).filter(|reference| !found.contains(reference)));
            rest = rest.get(PREFIX.len()..).unwrap_or_default();
        }
        found
    }
}

/// The reference whose text the bytes begin with.
fn at_start_of(bytes: &[u8]) -> Option<CheckpointRef> {
    // The hash is the fourth part after the prefix, and what follows it belongs to something else.
    let colons = bytes.iter().enumerate().filter(|(_, byte)| **byte == b':');
    let (last_colon, _) = colons.take(4).nth(3)?;
    let text = bytes.get(..last_colon + 1 + DIGITS)?;
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Position of the first occurrence.
fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

impl fmt::Display for CheckpointRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CheckpointRef {
            tag,
            epoch,
            update,
            sha256,
        } = self;
        write!(f, "{PREFIX}{tag}:{epoch}:{update}:{sha256}")
    }
}

impl FromStr for CheckpointRef {
    type Err = HookError;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Option<Vec<&str>> = text
            .strip_prefix(PREFIX)
            .map(|rest| rest.split(':').collect());
        if let Some([tag, epoch, update, sha256]) = parts.as_deref() {
            // No chain of conditions: plugins are built by compilers that don't know them.
            if let (Ok(epoch), Ok(update)) = (epoch.parse(), update.parse()) {
                return CheckpointRef::of_saved(tag, epoch, update, sha256);
            }
        }
        bail!("a reference is `{PREFIX}TAG:EPOCH:UPDATE:SHA256`, found {text:?}")
    }
}

impl TryFrom<String> for CheckpointRef {
    type Error = HookError;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<CheckpointRef> for String {
    fn from(reference: CheckpointRef) -> String {
        reference.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(tag: &str) -> CheckpointRef {
        CheckpointRef::of_saved(tag, 3, 12, &"ab".repeat(32)).expect("a reference")
    }

    #[test]
    fn references_are_found_in_states_of_any_form() {
        let (a, b) = (reference("a"), reference("best-0.5_b"));
        let json = serde_json::to_vec(&[&a, &b, &a]).expect("JSON");
        assert_eq!(CheckpointRef::all_in(&json), [a.clone(), b.clone()]);
        let bytes = [&b"\x00checkpoint:\xff"[..], format!("{a}0:x{b}").as_bytes()].concat();
        assert_eq!(CheckpointRef::all_in(&bytes), [a, b]);
        assert_eq!(CheckpointRef::all_in(b""), []);
        assert_eq!(CheckpointRef::all_in(b"checkpoint:a:1:2:checkpoint"), []);
    }

    #[test]
    fn what_is_not_a_reference_is_refused() {
        let hash = "0".repeat(64);
        for wrong in [
            "checkpoint:a:1:2:00".to_owned(),
            format!("checkpoint:../a:1:2:{hash}"),
            format!("checkpoint:a:-1:2:{hash}"),
            format!("checkpoint:a:1:{}:{hash}", u64::MAX),
            format!("a:1:2:{hash}"),
            format!("checkpoint:a:1:2:{}", "G".repeat(64)),
        ] {
            assert!(wrong.parse::<CheckpointRef>().is_err(), "{wrong}");
        }
    }
}
