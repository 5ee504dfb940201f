//! What a plugin says of itself, readable without running any of its code.
//!
//! [`export_plugin!`](crate::export_plugin) writes this as JSON into a section of the library,
//! [`SECTION`]; hosts list directories, resolve hook names and refuse plugins by it. Unknown
//! fields are ignored, so that a newer plugin's metadata stays readable.

use serde::{Deserialize, Serialize};

/// The section's name in ELF and PE files.
pub const SECTION: &str = ".sconce.plugin";

/// The section's name in Mach-O files, in segment `__DATA`.
pub const SECTION_MACHO: &str = "__sconce_plugin";

/// The bytes in front of the JSON text: they tell the section from chance and carry the format.
///
/// After them follow the text's length in bytes (`u32`, little endian) and the text in UTF-8.
pub const MAGIC: [u8; 8] = *b"SCONCE\x00\x01";

/// A plugin, as its library describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginMetadata {
    /// The crate's name.
    pub name: String,
    /// The crate's version.
    pub version: String,
    /// The crate's description, or nothing.
    #[serde(default)]
    pub about: String,
    /// The ABI's epoch: plugin and host must have the same ([`ABI_EPOCH`](crate::abi::ABI_EPOCH)).
    pub abi_epoch: u32,
    /// The version of `sconce-plugin-api` that it was built with.
    pub api_version: String,
    /// What `rustc --version` said.
    pub rustc: String,
    /// The target triple that it was built for.
    pub target: String,
    /// `unwind` or `abort`; a panic of a plugin built with `abort` ends the run.
    pub panic: String,
    /// The processor features that the code was compiled to need beyond the target's baseline.
    #[serde(default)]
    pub target_features: Vec<String>,
    /// The hook kinds that it exports.
    pub hooks: Vec<HookMetadata>,
}

/// One hook kind of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookMetadata {
    /// The name that manifests use.
    pub name: String,
    /// What it is for, in one sentence.
    #[serde(default)]
    pub about: String,
    /// Its default priority, 0 to 100.
    pub priority: u8,
    /// The mount points that it overrides.
    pub points: Vec<PointMetadata>,
    /// The host extensions that it can't do without, as `sconce.tensors/1`.
    #[serde(default)]
    pub requires: Vec<String>,
    /// The names of the metrics that it publishes.
    #[serde(default)]
    pub publishes: Vec<String>,
}

/// One overridden mount point: the number counts, the name is for messages about numbers that
/// the host does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointMetadata {
    /// The point's number.
    pub number: u32,
    /// The point's name.
    pub name: String,
}
