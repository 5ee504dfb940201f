//! A hook of a list with its opened library, ready to be created.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sconce_manifest::{EntryForm, OnCrash};
use serde_json::Value;

use crate::dispatch::HookSpec;
use crate::faults::Suspect;
use crate::plugin::blueprint::{HookBlueprint, HookLibrary};

/// What hooks learn of their run when they are created.
#[derive(Clone, Debug)]
pub struct RunSetup<'a> {
    /// The resolved manifest as JSON.
    pub manifest: Arc<str>,
    /// The run's directory.
    pub directory: &'a Path,
    /// The run's seed.
    pub seed: u64,
}

/// What a hook says it publishes that declares its metrics at its creation.
const DECLARED: &str = "*";

/// A hook of the manifest with its opened library, not yet created.
pub struct HookPlan {
    /// Its name, origin and call filters.
    pub spec: HookSpec,
    /// Path of its entry in the manifest, such as `hooks[1]`.
    pub json_path: String,
    pub(super) library: HookLibrary,
    /// The file that was loaded.
    pub file: PathBuf,
    /// Time limit of one of its calls.
    pub(super) time_limit: Option<Duration>,
    /// Name of the hook in the plugin.
    pub kind: String,
    /// Its configuration.
    pub config: Value,
    /// The JSON Schema of its configuration, if the plugin provides one.
    pub schema: Option<Value>,
    /// The metrics that it publishes, or [`DECLARED`].
    pub(super) publishes: Vec<String>,
    /// The form of its entry.
    pub(super) form: EntryForm,
    /// Extensions that it requires.
    pub requires: Vec<String>,
}

impl HookPlan {
    /// How the hook is created in a run.
    pub fn blueprint(&self, run: &RunSetup<'_>) -> HookBlueprint {
        HookBlueprint {
            library: self.library.clone(),
            kind: self.kind.clone(),
            config: self.config.to_string(),
            manifest: Arc::clone(&run.manifest),
            directory: run.directory.to_owned(),
            seed: run.seed,
            name: self.spec.name.clone(),
            plugin: self.spec.plugin.clone(),
            file: self.spec.library.clone(),
            opened: self.file.clone(),
            keeps_state: matches!(self.spec.on_crash, OnCrash::Restart(_)),
        }
    }

    /// The metrics that it is known to publish before it has been created.
    pub fn known_metrics(&self) -> impl Iterator<Item = &String> {
        let names = self.publishes.iter();
        names.filter(|name| *name != DECLARED)
    }

    /// Whether it says at its creation which metrics it publishes.
    pub fn declares_metrics(&self) -> bool {
        self.publishes.iter().any(|name| name == DECLARED)
    }

    /// The place in the manifest of a part of its configuration; the configuration itself if `path` is empty.
    pub fn place_in_config(&self, path: &str) -> String {
        self.form.place_in_config(&self.json_path, path)
    }

    /// Whether the hook runs in a process of its own.
    pub fn is_isolated(&self) -> bool {
        matches!(self.library, HookLibrary::Apart(_))
    }

    /// The hook as it is identified in reports of crashes and hangs.
    pub fn suspect(&self) -> Suspect {
        Suspect {
            name: self.spec.name.clone(),
            plugin: self.spec.plugin.clone(),
            file: self.spec.library.display().to_string(),
            loaded: self.file.clone(),
            // A process of its own is killed at the limit; the run goes on.
            time_limit: self.time_limit.filter(|_| !self.is_isolated()),
            is_isolated: self.is_isolated(),
        }
    }
}
