//! A plugin's file through all gates that run none of its code.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sconce_plugin_api::metadata::{HookMetadata, PluginMetadata};

use super::{Cause, Refusal, compatibility, file, fingerprint, section, structure};
use crate::digest;

/// A plugin that has passed the gates that run none of its code.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// Its file.
    pub path: PathBuf,
    /// The names of the libraries that it needs.
    pub needed: Vec<String>,
    /// Whether it looks for them relative to its own file (`$ORIGIN`).
    pub looks_beside: bool,
    /// What it says of itself.
    pub metadata: PluginMetadata,
    /// The size of its file in bytes.
    pub size: u64,
    fingerprint: Arc<OnceLock<String>>,
}

impl Inspected {
    /// The SHA-256 of its bytes, in hexadecimal digits. Worked out when it is first asked for, since most
    /// plugins of a directory are not used; that of nothing where the file can't be read any more.
    pub fn sha256(&self) -> &str {
        self.fingerprint
            .get_or_init(|| file::sha256(&self.path).unwrap_or_else(|_| digest::fingerprint(b"")))
    }

    /// The SHA-256 of its bytes, where somebody has asked for it.
    pub(super) fn known_sha256(&self) -> Option<&str> {
        self.fingerprint.get().map(String::as_str)
    }

    /// Whether these bytes, read again, are those that were looked at: they pass the gates, all that the look
    /// found is so, and the fingerprint is theirs where that is known. It may be younger than the look.
    pub(super) fn has(&self, bytes: &[u8]) -> bool {
        let found = digest::fingerprint(bytes);
        let is_alike = inspect_bytes(&self.path, bytes).is_ok_and(|again| {
            (again.size, &again.metadata) == (self.size, &self.metadata)
                && (&again.needed, again.looks_beside) == (&self.needed, self.looks_beside)
        });
        is_alike && *self.fingerprint.get_or_init(|| found.clone()) == found
    }

    /// One of its hook kinds.
    pub fn hook(&self, name: &str) -> Option<&HookMetadata> {
        self.metadata.hooks.iter().find(|hook| hook.name == name)
    }

    /// Whether its bytes are those that a manifest pins.
    pub fn check_fingerprint(&self, pinned: &str) -> Result<(), Refusal> {
        fingerprint::check(self.sha256(), pinned).map_err(|cause| Refusal::new(&self.path, cause))
    }
}

/// Reads a file and leads it through the gates: path, structure, metadata, compatibility.
pub fn inspect(path: &Path) -> Result<Inspected, Refusal> {
    let bytes = file::look(path).map_err(|cause| Refusal::new(path, cause))?;
    inspect_bytes(path, &bytes)
}

fn inspect_bytes(path: &Path, bytes: &[u8]) -> Result<Inspected, Refusal> {
    let refuse = |cause| Refusal::new(path, cause);
    let structure = structure::prove(bytes).map_err(|fault| refuse(Cause::Structure(fault)))?;
    let metadata = section::read(bytes).map_err(refuse)?;
    compatibility::check(&metadata).map_err(refuse)?;
    Ok(Inspected {
        path: path.to_owned(),
        needed: structure.needs.needed,
        looks_beside: structure.needs.looks_beside,
        metadata,
        size: bytes.len() as u64,
        fingerprint: Arc::default(),
    })
}
