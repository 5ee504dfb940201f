//! An entry of the manifest's `hooks`: a hook's name, or an object.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use sconce_plugin_api::metadata::HookRanks;
use sconce_plugin_api::{Phase, Priority};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::entry_form::EntryForm;
use super::isolation::{CrashPolicy, Isolation, Sandbox, SandboxConfig};
use super::limits::seconds;
use super::policies::{Every, OnCrash, OnError, ReloadPolicy, Unit};
use super::priority::WrittenPriority;
use sconce_base::patterns::Patterns;

/// The message for an `every` with no unit, or with more than one.
pub(crate) const ONE_UNIT: &str =
    "`every` must have exactly one of `iterations`, `updates`, `epochs`";

/// The keys of an entry that belong to the host, not to the hook's configuration.
pub const ENTRY_KEYS: [&str; 18] = [
    "hook",
    "name",
    "priority",
    "on_error",
    "on_panic",
    "time_limit",
    "isolation",
    "on_crash",
    "sandbox",
    "reload",
    "ranks",
    "phases",
    "every",
    "streams",
    "modules",
    "library",
    "sha256",
    "signed_by",
];

/// An entry of `hooks`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HookEntry {
    /// Unique name of the entry: the key of the hook's state, timings and messages.
    pub name: String,
    /// Name of the hook, or `plugin/hook`.
    pub hook: String,
    /// Priority among the hooks; by default the one its author chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<WrittenPriority>,
    /// What happens when the hook fails.
    on_error: OnError,
    /// Seconds after which one of its calls counts as a hang; `None` for the limit of all hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_limit: Option<f64>,
    /// The process that it runs in.
    #[serde(skip_serializing_if = "is_default")]
    isolation: Isolation,
    /// What happens when it panics; `None` for what corresponds to `on_error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_panic: Option<CrashPolicy>,
    /// What happens when its process crashes; `None` for what corresponds to `on_error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_crash: Option<CrashPolicy>,
    /// What its process may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<SandboxConfig>,
    /// When its library is loaded again in mid-run.
    #[serde(skip_serializing_if = "is_default")]
    reload: ReloadPolicy,
    /// Where it runs when several processes train together; `None` for where its author has chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<HookRanks>,
    /// The phases in which it is called; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<Vec<PhaseName>>,
    /// In which iterations, updates or epochs it is called; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<EveryConfig>,
    /// The data sets for whose passes it is called; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<String>>,
    /// Patterns of the modules it is attached to; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    modules: Option<Vec<String>>,
    /// Path of the library to load instead of searching for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<PathBuf>,
    /// Required SHA-256 of the library file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Name of the trusted key that must have signed the library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    /// The hook's own configuration.
    pub config: Map<String, Value>,
    /// How the entry is written.
    #[serde(skip)]
    pub form: EntryForm,
    /// Index in the manifest's list, from which some entries may have been left out.
    #[serde(skip)]
    pub index: usize,
}

impl HookEntry {
    /// The priority given in the manifest, if any.
    pub fn priority(&self) -> Option<Priority> {
        self.priority.map(|written| written.0)
    }

    /// What happens when the hook fails.
    pub fn on_error(&self) -> OnError {
        self.on_error
    }

    /// Whether the hook runs in a process of its own.
    pub fn is_isolated(&self) -> bool {
        self.isolation.is_process() || self.sandbox().is_some()
    }

    /// What happens when the hook panics.
    pub fn on_panic(&self) -> OnCrash {
        CrashPolicy::of(self.on_panic, self.on_error())
    }

    /// What happens when the hook's process crashes.
    pub fn on_crash(&self) -> OnCrash {
        CrashPolicy::of(self.on_crash, self.on_error())
    }

    /// When the hook's library is loaded again in mid-run.
    pub fn reload(&self) -> ReloadPolicy {
        match self.sha256 {
            Some(_) => ReloadPolicy::Never,
            None => self.reload,
        }
    }

    /// Rules of the hook's sandbox, if it has one.
    pub fn sandbox(&self) -> Option<Sandbox> {
        self.sandbox.as_ref().and_then(SandboxConfig::rules)
    }

    /// Time limit for one of the hook's calls, if the entry has one.
    pub fn time_limit(&self) -> Option<Duration> {
        self.time_limit.map(seconds)
    }

    /// In which iterations, updates or epochs the hook is called; `None` for all.
    ///
    /// # Errors
    ///
    /// If the manifest does not give exactly one of them.
    pub fn every(&self) -> Result<Option<Every>, String> {
        self.every.as_ref().map(EveryConfig::every).transpose()
    }

    /// Patterns of the modules at which the hook is called; `None` for all.
    ///
    /// # Errors
    ///
    /// If one of them is not a valid pattern.
    pub fn modules(&self) -> Result<Option<Patterns>, String> {
        self.modules.as_deref().map(Patterns::new).transpose()
    }

    /// The phases in which the hook is called; `None` for all.
    pub fn phases(&self) -> Option<Vec<Phase>> {
        let phases = self.phases.as_ref()?;
        Some(phases.iter().map(|name| name.phase()).collect())
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A phase, by its name in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseName {
    /// Training.
    Train,
    /// Validation.
    Val,
    /// Test.
    Test,
    /// Prediction.
    Predict,
}

impl PhaseName {
    /// The phase with this name.
    pub fn phase(self) -> Phase {
        match self {
            PhaseName::Train => Phase::Train,
            PhaseName::Val => Phase::Val,
            PhaseName::Test => Phase::Test,
            PhaseName::Predict => Phase::Predict,
        }
    }
}

/// In which iterations, updates or epochs a hook is called: exactly one of the three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct EveryConfig {
    /// Every n batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    iterations: Option<u64>,
    /// Every n updates of the parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    updates: Option<u64>,
    /// Every n training epochs, with their validations.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    epochs: Option<u64>,
    /// Which of every n is selected. With 0 (default) the n-th, the 2n-th and so on; with 1 the first, the
    /// (n+1)-th and so on.
    offset: u64,
}

impl EveryConfig {
    fn every(&self) -> Result<Every, String> {
        let (unit, count) = match (self.iterations, self.updates, self.epochs) {
            (Some(count), None, None) => (Unit::Iterations, count),
            (None, Some(count), None) => (Unit::Updates, count),
            (None, None, Some(count)) => (Unit::Epochs, count),
            _ => {
                return Err(ONE_UNIT.to_owned());
            }
        };
        Ok(Every {
            unit,
            count,
            offset: self.offset,
        })
    }
}

/// The object form of an entry.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Object {
    /// Name of the hook, or `plugin/hook` if two plugins provide it; `sconce plugins` lists them. For a hook in Python its
    /// file, as in `hooks/f1.py` or `hooks/f1.py:Class`.
    #[schemars(length(min = 1), extend("examples" = ["console"]))]
    hook: String,
    /// Unique name of the entry. Default: the hook's name, then `hook-2`, and so on.
    #[serde(default)]
    #[schemars(length(min = 1))]
    name: Option<String>,
    /// `HIGHEST`, `HIGHER`, `HIGH`, `NORMAL`, `LOW`, `LOWER`, `LOWEST`, or 0 (first) to 100
    /// (last). Default: the hook's.
    #[serde(default)]
    priority: Option<WrittenPriority>,
    /// What happens when the hook returns an error.
    #[serde(default)]
    on_error: OnError,
    /// Seconds after which one of the hook's calls counts as a hang, which ends the process. Default:
    /// `limits.call`.
    #[serde(default)]
    #[schemars(range(min = 0.01, max = 864_000.0))]
    time_limit: Option<f64>,
    /// The process that the hook runs in.
    #[serde(default)]
    isolation: Isolation,
    /// What happens when the hook panics, which may leave it half changed: `fail`, `disable`, or `restart` (3 times) or
    /// `{"restart": N}`, which recreates it from its last saved state. Default: as `on_error`; `restart` if that is
    /// `ignore`.
    #[serde(default)]
    on_panic: Option<CrashPolicy>,
    /// What happens when the process of an isolated hook crashes, or is killed at its time limit. Default: as
    /// `on_error`; `restart` if that is `ignore`.
    #[serde(default)]
    on_crash: Option<CrashPolicy>,
    /// What the process of the hook may use: `true` for the system's libraries and the run's directory alone, or an
    /// object with exceptions. Isolates the hook. Default: everything that the run may.
    #[serde(default)]
    sandbox: Option<SandboxConfig>,
    /// When the hook's library is loaded again in mid-run, with the hook's state carried over. With `sha256`: never.
    #[serde(default)]
    reload: ReloadPolicy,
    /// Where the hook runs when several processes train together. Default: where its author has chosen, which is the
    /// first rank alone for most hooks.
    #[serde(default)]
    ranks: Option<HookRanks>,
    /// The phases in which the hook is called. Default: all.
    #[serde(default)]
    #[schemars(length(min = 1))]
    phases: Option<Vec<PhaseName>>,
    /// In which iterations, updates or epochs the hook is called. Default: in all.
    #[serde(default)]
    every: Option<EveryConfig>,
    /// The data sets for whose passes the hook is called: `train`, `val`, `test`, or the task's own names.
    /// Default: all.
    #[serde(default)]
    #[schemars(length(min = 1))]
    streams: Option<Vec<String>>,
    /// The modules at which `module_forward` and `module_backward` are called. In these names, `*` matches
    /// any characters and `?` a single one. Default: all.
    #[serde(default)]
    #[schemars(length(min = 1))]
    modules: Option<Vec<String>>,
    /// Path of the library, instead of the one found in the plugin directories.
    #[serde(default)]
    library: Option<PathBuf>,
    /// SHA-256 of the library file, as 64 hexadecimal digits.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9a-fA-F]{64}$"))]
    sha256: Option<String>,
    /// Name of the key in `trust.json` that must have signed the library.
    #[serde(default)]
    #[schemars(length(min = 1, max = 64))]
    signed_by: Option<String>,
    /// The hook's own configuration.
    #[serde(default)]
    config: Map<String, Value>,
}

impl From<Object> for HookEntry {
    fn from(object: Object) -> Self {
        HookEntry {
            // Empty names are filled in once all entries are known.
            name: object.name.unwrap_or_default(),
            hook: object.hook,
            priority: object.priority,
            on_error: object.on_error,
            time_limit: object.time_limit,
            isolation: object.isolation,
            on_panic: object.on_panic,
            on_crash: object.on_crash,
            sandbox: object.sandbox,
            reload: object.reload,
            ranks: object.ranks,
            phases: object.phases,
            every: object.every,
            streams: object.streams,
            modules: object.modules,
            library: object.library,
            sha256: object.sha256,
            signed_by: object.signed_by,
            config: object.config,
            form: EntryForm::default(),
            index: 0,
        }
    }
}

impl JsonSchema for HookEntry {
    fn schema_name() -> Cow<'static, str> {
        "HookEntry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<Object>().to_value();
        let name = json!({
            "type": "string", "minLength": 1, "description": "The hook's name.", "examples": ["console"]
        });
        let mut schema = Schema::default();
        schema.insert("anyOf".to_owned(), json!([name, object]));
        schema
    }
}

impl<'de> Deserialize<'de> for HookEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HookEntryVisitor)
    }
}

struct HookEntryVisitor;

impl<'de> Visitor<'de> for HookEntryVisitor {
    type Value = HookEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a hook's name or an object")
    }

    fn visit_str<E: Error>(self, hook: &str) -> Result<Self::Value, E> {
        Ok(HookEntry::from(Object {
            hook: hook.to_owned(),
            name: None,
            priority: None,
            on_error: OnError::default(),
            time_limit: None,
            isolation: Isolation::default(),
            on_panic: None,
            on_crash: None,
            sandbox: None,
            reload: ReloadPolicy::default(),
            ranks: None,
            phases: None,
            every: None,
            streams: None,
            modules: None,
            library: None,
            sha256: None,
            signed_by: None,
            config: Map::new(),
        }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Object::deserialize(MapAccessDeserializer::new(map)).map(HookEntry::from)
    }
}
