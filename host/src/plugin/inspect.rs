//! A plugin's file through all gates that run none of its code.

use std::path::{Path, PathBuf};

use sconce_plugin_api::metadata::{HookMetadata, PluginMetadata};

use super::{Cause, Refusal, compatibility, fingerprint, section, structure};

/// A plugin that has passed the gates that run none of its code.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspected {
    /// Its file.
    pub path: PathBuf,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
    /// The size of its file in bytes.
    pub size: u64,
    /// The names of the libraries that it needs.
    pub needed: Vec<String>,
    /// Whether it looks for them relative to its own file (`$ORIGIN`).
    pub looks_beside: bool,
    /// What it says of itself.
    pub metadata: PluginMetadata,
}

impl Inspected {
    /// One of its hook kinds.
    pub fn hook(&self, name: &str) -> Option<&HookMetadata> {
        self.metadata.hooks.iter().find(|hook| hook.name == name)
    }

    /// Whether its bytes are those that a manifest pins.
    pub fn check_fingerprint(&self, pinned: &str) -> Result<(), Refusal> {
        fingerprint::check(&self.sha256, pinned).map_err(|cause| Refusal::new(&self.path, cause))
    }
}

/// Reads a file and leads it through the gates: path, structure, metadata, compatibility.
pub fn inspect(path: &Path) -> Result<Inspected, Refusal> {
    let refuse = |cause| Refusal::new(path, cause);
    let bytes = read(path).map_err(refuse)?;
    let structure = structure::prove(&bytes).map_err(|fault| refuse(Cause::Structure(fault)))?;
    let metadata = section::read(&bytes).map_err(refuse)?;
    compatibility::check(&metadata).map_err(refuse)?;
    Ok(Inspected {
        path: path.to_owned(),
        sha256: fingerprint::fingerprint(&bytes),
        size: bytes.len() as u64,
        needed: structure.needs.needed,
        looks_beside: structure.needs.looks_beside,
        metadata,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Cause> {
    let metadata = std::fs::metadata(path).map_err(|error| Cause::Read(error.to_string()))?;
    if metadata.is_dir() {
        return Err(Cause::NotAFile("a directory"));
    }
    if !metadata.is_file() {
        return Err(Cause::NotAFile("a device, pipe or socket"));
    }
    std::fs::read(path).map_err(|error| Cause::Read(error.to_string()))
}
