//! A hook in the manifest: its name, or an object.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use sconce_plugin_api::{Phase, Priority};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::limits::seconds;
use super::priority::WrittenPriority;
use crate::dispatch::{Every, OnError, Unit};
use crate::patterns::Patterns;

/// What is wrong with an `every` that says nothing, or two things.
pub(super) const ONE_UNIT: &str =
    "`every` must have exactly one of `iterations`, `updates`, `epochs`";

/// The keys of an entry that are the host's and not the hook's.
pub(crate) const ENTRY_KEYS: [&str; 11] = [
    "hook",
    "name",
    "priority",
    "on_error",
    "time_limit",
    "phases",
    "every",
    "streams",
    "modules",
    "library",
    "sha256",
];

/// An entry of `hooks`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HookEntry {
    /// The entry's own name, unique: the key of the hook's state, times and messages.
    pub name: String,
    /// The hook's name, or `plugin/hook`.
    pub hook: String,
    /// Where it stands among the others; by default where its author put it.
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<WrittenPriority>,
    /// What happens when it fails.
    on_error: Policy,
    /// The seconds after which one of its calls is a hang; `None` for the limit of all hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_limit: Option<f64>,
    /// The phases in which it is called; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<Vec<PhaseName>>,
    /// In which iterations, updates or epochs it is called; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<EveryConfig>,
    /// The data sets over whose passes it is called; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<String>>,
    /// The modules at which it listens; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    modules: Option<Vec<String>>,
    /// This file and no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<PathBuf>,
    /// The SHA-256 of the file's bytes: these and no others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The hook's own configuration.
    pub config: Map<String, Value>,
    /// Where it stands in the manifest's list, of which some may be left out.
    #[serde(skip)]
    pub(crate) index: usize,
}

impl HookEntry {
    /// Where the manifest puts the hook, if it says.
    pub fn priority(&self) -> Option<Priority> {
        self.priority.map(|written| written.0)
    }

    /// What happens when the hook fails.
    pub fn on_error(&self) -> OnError {
        match self.on_error {
            Policy::Fail => OnError::Fail,
            Policy::Disable => OnError::Disable,
            Policy::Ignore => OnError::Ignore,
        }
    }

    /// How long one of the hook's calls may take, if the entry says.
    pub fn time_limit(&self) -> Option<Duration> {
        self.time_limit.map(seconds)
    }

    /// In which iterations, updates or epochs the hook is called; `None` for all.
    ///
    /// # Errors
    ///
    /// Where the manifest does not say exactly one of them.
    pub fn every(&self) -> Result<Option<Every>, String> {
        self.every.as_ref().map(EveryConfig::every).transpose()
    }

    /// The patterns of the modules at which the hook listens; `None` for all.
    ///
    /// # Errors
    ///
    /// Where one of them is no pattern.
    pub fn modules(&self) -> Result<Option<Patterns>, String> {
        self.modules.as_deref().map(Patterns::new).transpose()
    }

    /// The phases in which the hook is called; `None` for all.
    pub fn phases(&self) -> Option<Vec<Phase>> {
        let phases = self.phases.as_ref()?;
        Some(phases.iter().map(|name| name.phase()).collect())
    }
}

/// What happens when a hook fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    /// The run ends, through `on_exception` and `after_run`.
    #[default]
    Fail,
    /// The hook is off from then on, and the run goes on.
    Disable,
    /// The fault is reported, and the run goes on with the hook.
    Ignore,
}

/// A phase by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseName {
    /// Training.
    Train,
    /// Validation.
    Val,
    /// The test.
    Test,
    /// Prediction.
    Predict,
}

impl PhaseName {
    /// The phase.
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
    /// In every so many batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    iterations: Option<u64>,
    /// In every so many updates of the parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    updates: Option<u64>,
    /// In every so many training epochs, with their validations.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    epochs: Option<u64>,
    /// Which of them: 0 (default) for the n-th, 2n-th and so on, 1 for the first, the one n after it
    /// and so on.
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
    /// The hook's name, or `plugin/hook` where two plugins have it.
    #[schemars(length(min = 1))]
    hook: String,
    /// The entry's own name, unique. Default: the hook's, then `hook-2`, and so on.
    #[serde(default)]
    #[schemars(length(min = 1))]
    name: Option<String>,
    /// `HIGHEST`, `HIGHER`, `HIGH`, `NORMAL`, `LOW`, `LOWER`, `LOWEST`, or 0 (first) to 100
    /// (last). Default: the hook's.
    #[serde(default)]
    priority: Option<WrittenPriority>,
    /// What happens when the hook fails.
    #[serde(default)]
    on_error: Policy,
    /// The seconds after which one of the hook's calls is a hang, which ends the process. Default:
    /// `limits.call`.
    #[serde(default)]
    #[schemars(range(min = 0.01, max = 864_000.0))]
    time_limit: Option<f64>,
    /// The phases in which the hook is called. Default: all.
    #[serde(default)]
    #[schemars(length(min = 1))]
    phases: Option<Vec<PhaseName>>,
    /// In which iterations, updates or epochs the hook is called. Default: in all.
    #[serde(default)]
    every: Option<EveryConfig>,
    /// The data sets over whose passes the hook is called: `train`, `val`, `test`, or what the task
    /// calls them. Default: all.
    #[serde(default)]
    #[schemars(length(min = 1))]
    streams: Option<Vec<String>>,
    /// The modules at which `module_forward` and `module_backward` are called: names in which `*`
    /// stands for any characters and `?` for one. Default: all.
    #[serde(default)]
    #[schemars(length(min = 1))]
    modules: Option<Vec<String>>,
    /// The library's file, rather than the one that is found in the directories.
    #[serde(default)]
    library: Option<PathBuf>,
    /// The SHA-256 of the library's bytes, in 64 hexadecimal digits.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9a-fA-F]{64}$"))]
    sha256: Option<String>,
    /// The hook's own configuration.
    #[serde(default)]
    config: Map<String, Value>,
}

impl From<Object> for HookEntry {
    fn from(object: Object) -> Self {
        HookEntry {
            // An empty name is filled in once all entries are known.
            name: object.name.unwrap_or_default(),
            hook: object.hook,
            priority: object.priority,
            on_error: object.on_error,
            time_limit: object.time_limit,
            phases: object.phases,
            every: object.every,
            streams: object.streams,
            modules: object.modules,
            library: object.library,
            sha256: object.sha256,
            config: object.config,
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
        let name = json!({"type": "string", "minLength": 1, "description": "The hook's name."});
        let mut schema = Schema::default();
        schema.insert("anyOf".to_owned(), json!([name, object]));
        schema
    }
}

impl<'de> Deserialize<'de> for HookEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Entry)
    }
}

struct Entry;

impl<'de> Visitor<'de> for Entry {
    type Value = HookEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a hook's name or an object")
    }

    fn visit_str<E: Error>(self, hook: &str) -> Result<Self::Value, E> {
        Ok(HookEntry::from(Object {
            hook: hook.to_owned(),
            name: None,
            priority: None,
            on_error: Policy::default(),
            time_limit: None,
            phases: None,
            every: None,
            streams: None,
            modules: None,
            library: None,
            sha256: None,
            config: Map::new(),
        }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Object::deserialize(MapAccessDeserializer::new(map)).map(HookEntry::from)
    }
}
