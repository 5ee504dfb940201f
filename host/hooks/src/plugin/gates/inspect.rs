//! Runs a plugin's file through all gates that execute none of its code.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sconce_plugin_api::metadata::{HookMetadata, PluginMetadata};

use super::refusal::{Cause, PluginRefusal};
use super::trust::SignatureState;
use super::{compatibility, file, fingerprint, section, signature, structure};
use sconce_manifest::digest;

/// A plugin that has passed the gates that execute none of its code.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// Path of the plugin's file.
    pub path: PathBuf,
    /// Names of the libraries that it needs.
    pub needed: Vec<String>,
    /// Whether it looks for them relative to its own file (`$ORIGIN`).
    pub looks_beside: bool,
    /// Names and places by which others are loaded from outside of the system's directories, as the file has them.
    pub outside: Vec<String>,
    /// The plugin's metadata.
    pub metadata: PluginMetadata,
    /// Size of the file in bytes.
    pub size: u64,
    /// Who has signed the file.
    pub signature: SignatureState,
    fingerprint: Arc<OnceLock<String>>,
}

impl Inspected {
    /// SHA-256 of the file, in hexadecimal digits. Computed on first use, since most plugins of a directory
    /// are not used; if the file can no longer be read, it is the hash of no bytes.
    pub fn sha256(&self) -> &str {
        self.fingerprint
            .get_or_init(|| file::sha256(&self.path).unwrap_or_else(|_| digest::fingerprint(b"")))
    }

    /// The SHA-256 if it has already been computed.
    pub(in crate::plugin) fn known_sha256(&self) -> Option<&str> {
        self.fingerprint.get().map(String::as_str)
    }

    /// Whether `bytes`, read later, are those inspected. They must pass the gates with the same results, and
    /// match the fingerprint if that is known, which may have been computed after the inspection.
    pub(in crate::plugin) fn has(&self, bytes: &[u8]) -> bool {
        let found = digest::fingerprint(bytes);
        let is_alike = inspect_bytes(&self.path, bytes).is_ok_and(|again| {
            (again.size, &again.metadata) == (self.size, &self.metadata)
                && (&again.needed, again.looks_beside) == (&self.needed, self.looks_beside)
                && again.signature == self.signature
        });
        is_alike && *self.fingerprint.get_or_init(|| found.clone()) == found
    }

    /// The hook of this name.
    pub fn hook(&self, name: &str) -> Option<&HookMetadata> {
        self.metadata.hooks.iter().find(|hook| hook.name == name)
    }

    /// Checks that a trusted key of this name has signed it.
    pub fn check_signer(&self, name: &str) -> Result<(), PluginRefusal> {
        let cause = if !self.signature.is_by(name) {
            Cause::Signer {
                wanted: name.to_owned(),
                found: self.signature.clone(),
            }
        } else if !self.outside.is_empty() {
            Cause::Dependencies(self.outside.clone())
        } else {
            return Ok(());
        };
        Err(PluginRefusal::new(&self.path, cause))
    }

    /// Checks that the bytes are those pinned by a manifest.
    pub fn check_fingerprint(&self, pinned: &str) -> Result<(), PluginRefusal> {
        fingerprint::check(self.sha256(), pinned)
            .map_err(|cause| PluginRefusal::new(&self.path, cause))
    }
}

/// Reads a file and checks it in order: path, structure, metadata, compatibility, signature.
pub fn inspect(path: &Path) -> Result<Inspected, PluginRefusal> {
    let bytes = file::look(path).map_err(|cause| PluginRefusal::new(path, cause))?;
    inspect_bytes(path, &bytes)
}

fn inspect_bytes(path: &Path, bytes: &[u8]) -> Result<Inspected, PluginRefusal> {
    let refuse = |cause| PluginRefusal::new(path, cause);
    let needs = structure::prove(bytes).map_err(|fault| refuse(Cause::Structure(fault)))?;
    let metadata = section::read(bytes).map_err(refuse)?;
    compatibility::check(&metadata).map_err(refuse)?;
    let signature = signature::check(path, bytes).map_err(refuse)?;
    signature::check_dependencies(path, &needs.outside).map_err(refuse)?;
    Ok(Inspected {
        path: path.to_owned(),
        needed: needs.needed,
        looks_beside: needs.looks_beside,
        outside: needs.outside,
        metadata,
        size: bytes.len() as u64,
        signature,
        fingerprint: Arc::default(),
    })
}
