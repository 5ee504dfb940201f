//! A plugin's metadata, readable without running any of its code.
//!
//! [`export_plugin!`](crate::export_plugin) writes it as JSON into a section of the library, [`SECTION`];
//! hosts use it to list directories, resolve hook names and reject incompatible plugins. Unknown fields are
//! ignored, so that a newer plugin's metadata stays readable.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Name of the section in ELF and PE files.
pub const SECTION: &str = ".sconce.plugin";

/// Name of the section in Mach-O files, in segment `__DATA`.
pub const SECTION_MACHO: &str = "__sconce_plugin";

/// Magic bytes at the start of the section, which also identify the version of the format.
///
/// They are followed by the text's length in bytes (`u32`, little endian) and the JSON text in UTF-8.
pub const MAGIC: [u8; 8] = *b"SCONCE\x00\x01";

/// A plugin, as described in its library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginMetadata {
    /// Name of the plugin's crate.
    pub name: String,
    /// Version of the plugin's crate.
    pub version: String,
    /// Description of the plugin's crate; may be empty.
    #[serde(default)]
    pub about: String,
    /// Epoch of the ABI; plugin and host must have the same ([`ABI_EPOCH`](crate::abi::ABI_EPOCH)).
    pub abi_epoch: u32,
    /// Version of `sconce-plugin-api` that the plugin was built with.
    pub api_version: String,
    /// Output of `rustc --version` of the compiler; in C and C++, the compiler's name and version.
    pub rustc: String,
    /// Target triple that the plugin was built for.
    pub target: String,
    /// Programming language, if not Rust: `c` or `c++`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Panic strategy, `unwind` or `abort`; with `abort`, a panic in the plugin ends the run. `none` in C.
    pub panic: String,
    /// Processor features required by the compiled code beyond the target's baseline.
    #[serde(default)]
    pub target_features: Vec<String>,
    /// The exported hook kinds.
    pub hooks: Vec<HookMetadata>,
    /// The exported transports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transports: Vec<TransportMetadata>,
}

impl PluginMetadata {
    /// Whether the plugin is written in C or C++, with `sconce.h`.
    pub fn is_c(&self) -> bool {
        matches!(self.language.as_deref(), Some("c" | "c++"))
    }
}

/// One hook kind of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookMetadata {
    /// Name of the hook kind, as manifests use it.
    pub name: String,
    /// Purpose of the hook, in one sentence.
    #[serde(default)]
    pub about: String,
    /// Default priority, 0 to 100.
    pub priority: u8,
    /// Mount points whose methods the hook overrides.
    pub points: Vec<PointMetadata>,
    /// Host extensions that the hook requires, such as `sconce.tensors/1`.
    #[serde(default)]
    pub requires: Vec<String>,
    /// Requests that the hook may make, by [name](crate::ext::Request::name), of those that a metadata list
    /// [has](crate::ext::Request::is_listed); `None` if that is not known, as of a plugin older than this key.
    ///
    /// A loop that can't serve one refuses the hook before the run. With its configuration a hook may ask for less
    /// ([`Setup::asks`](crate::Setup::asks)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Vec<String>>,
    /// What of the loop the hook may read or change, by [name](crate::ext::Readable::name); `None` if that is not known.
    ///
    /// A loop that has it not refuses the hook before the run. With its configuration a hook may read less
    /// ([`Setup::reads`](crate::Setup::reads)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Vec<String>>,
    /// What of `reads` the hook does without if the loop lacks it, and mount points that the loop need not come by, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional: Vec<String>,
    /// JSON Schema of the hook's configuration, in the section of plugins that can't compute it (in C); null otherwise.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub config_schema: Value,
    /// Names of the metrics that the hook publishes.
    #[serde(default)]
    pub publishes: Vec<String>,
    /// Where the hook runs when several processes train together.
    #[serde(
        default,
        deserialize_with = "known_or_first",
        skip_serializing_if = "HookRanks::is_first"
    )]
    pub ranks: HookRanks,
}

impl HookMetadata {
    /// What of the loop the hook can't do without, by [name](crate::ext::Readable::name): `reads` without what is optional.
    pub fn needs(&self) -> Option<impl Iterator<Item = &str>> {
        let is_needed = |name: &&String| !self.optional.contains(*name);
        let reads = self.reads.as_ref()?;
        Some(reads.iter().filter(is_needed).map(String::as_str))
    }
}

/// Where a hook runs when several processes train together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookRanks {
    /// On the first rank alone: it reads, writes files, or asks for something, which the host passes on to all ranks.
    #[default]
    First,
    /// On all ranks, an instance on each: it changes what they share, such as gradients, or counts each rank's batches.
    All,
}

impl HookRanks {
    /// The name in manifests and in `#[hook(ranks = "…")]`.
    pub fn name(self) -> &'static str {
        match self {
            HookRanks::First => "first",
            HookRanks::All => "all",
        }
    }

    /// Whether a hook that runs there runs on the rank with this number.
    pub fn has(self, rank: usize) -> bool {
        rank == 0 || self == HookRanks::All
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_first(&self) -> bool {
        *self == HookRanks::First
    }
}

/// What a newer plugin says that this version doesn't know is the default, so that its metadata stays readable.
fn known_or_first<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HookRanks, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// One transport of a plugin: what moves bytes between the processes of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransportMetadata {
    /// Name, as in the manifest's `distributed.engine`.
    pub name: String,
    /// Purpose of the transport, in one sentence.
    #[serde(default)]
    pub about: String,
}

/// A mount point that a hook overrides.
///
/// The number is authoritative; the name is for messages about numbers that the host does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointMetadata {
    /// The point's number.
    pub number: u32,
    /// The point's name.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(json: &str) -> HookRanks {
        let text = format!(r#"{{"name": "a", "priority": 30, "points": []{json}}}"#);
        let hook: HookMetadata = serde_json::from_str(&text).expect("it is metadata");
        hook.ranks
    }

    #[test]
    fn what_older_plugins_ask_is_not_known() {
        let read = |json: &str| -> HookMetadata {
            let text = format!(r#"{{"name": "a", "priority": 30, "points": []{json}}}"#);
            serde_json::from_str(&text).expect("it is metadata")
        };
        let older = read("");
        assert_eq!((&older.asks, &older.reads), (&None, &None));
        let written = serde_json::to_string(&older).expect("it is JSON");
        assert!(
            !written.contains("asks") && !written.contains("reads"),
            "{written}"
        );
        let newer = read(
            r#", "asks": ["stop", "make_tea"], "reads": ["loss", "tea"], "optional": ["tea"]"#,
        );
        let needs = newer.needs().expect("it is known");
        assert_eq!(needs.collect::<Vec<_>>(), ["loss"]);
        let asks = vec!["stop".to_owned(), "make_tea".to_owned()];
        assert_eq!(newer.asks, Some(asks));
    }

    #[test]
    fn a_hook_runs_on_the_first_rank_unless_its_metadata_say_all() {
        assert_eq!(ranks(""), HookRanks::First);
        assert_eq!(ranks(r#", "ranks": "first""#), HookRanks::First);
        assert_eq!(ranks(r#", "ranks": "all""#), HookRanks::All);
        assert_eq!(ranks(r#", "ranks": {"of": "tomorrow"}"#), HookRanks::First);
        assert!(HookRanks::First.has(0) && !HookRanks::First.has(1));
        assert!(HookRanks::All.has(0) && HookRanks::All.has(1));
    }
}
