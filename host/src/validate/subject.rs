//! The subject of a test: a library, one of its hooks, and the hook's configuration.

use std::cell::OnceCell;
use std::fmt::Display;
use std::path::PathBuf;

use sconce_plugin_api::metadata::HookMetadata;
use serde_json::{Value, json};

use super::finding::{Finding, failed, skipped};
use super::order::{DOING, TestOrder};
use crate::plugin::catalogue;
use crate::plugin::library::Library;
use crate::plugin::{Inspected, PluginRefusal, inspect};

/// The subject of a test.
pub(super) struct Subject {
    /// Path of the library.
    pub(super) file: PathBuf,
    /// Name of the hook; empty for tests of the library.
    hook: String,
    pub(super) given: Option<Value>,
    pub(super) found: OnceCell<Value>,
    /// Seed of everything random.
    pub(super) seed: u64,
    /// Directory for this test only.
    pub(super) place: PathBuf,
}

impl Subject {
    pub(super) fn of(order: &TestOrder) -> Subject {
        Subject {
            file: order.library.clone(),
            hook: order.hook.clone(),
            given: order.config.clone(),
            found: OnceCell::new(),
            seed: order.seed,
            place: order.place.clone(),
        }
    }

    /// Passes the library through the gates that run none of its code.
    pub(super) fn inspected(&self) -> Result<Inspected, Finding> {
        inspect(&self.file).map_err(|refusal| refused(&refusal))
    }

    /// Opens the library.
    pub(super) fn library(&self) -> Result<Library, Finding> {
        Library::open(&self.file).map_err(|refusal| refused(&refusal))
    }

    /// The hook's entry in the library's metadata.
    pub(super) fn metadata(&self) -> Result<HookMetadata, Finding> {
        let inspected = self.inspected()?;
        let hook = inspected.hook(&self.hook).cloned();
        hook.ok_or_else(|| failed(format!("there is no hook `{}`", self.hook)))
    }

    /// The hook's name.
    pub(super) fn hook(&self) -> &str {
        &self.hook
    }

    /// The JSON Schema of the hook's configuration.
    pub(super) fn schema(&self) -> Result<Value, Finding> {
        let description = self.library()?.describe();
        let description = description.map_err(|refusal| refused(&refusal))?;
        let schema = catalogue::config_schema(&description, &self.metadata()?);
        schema
            .cloned()
            .ok_or_else(|| failed("the library describes no configuration of the hook"))
    }

    /// Whether the user gave the configuration.
    pub(super) fn is_configured(&self) -> bool {
        self.given.is_some()
    }

    /// Records the current action of the test, in case the process does not complete it.
    pub(super) fn doing(&self, what: impl Display) {
        // If the note can't be written, a message only has less detail.
        drop(std::fs::write(self.place.join(DOING), what.to_string()));
    }

    /// The small run's manifest, with `hooks` instances of the hook.
    pub(super) fn manifest(&self, hooks: usize, config: &Value) -> Value {
        let file = std::path::absolute(&self.file).unwrap_or_else(|_| self.file.clone());
        let entry = |index: usize| {
            json!({
                "hook": self.hook,
                "name": format!("subject-{index}"),
                "library": file,
                "config": config,
            })
        };
        json!({
            "name": "validate",
            "seed": self.seed % (1 << 32),
            "model": {"kind": "mlp", "hidden": [8]},
            "data": {"kind": "synthetic-digits", "train": 24, "val": 10, "test": 6},
            "optimizer": {"kind": "sgd", "learning_rate": 0.01, "momentum": 0.9},
            "train": {"epochs": 2, "batch_size": 8, "eval_batch_size": 5},
            "hooks": (0..hooks).map(entry).collect::<Vec<_>>(),
        })
    }
}

/// The result for a library that the host does not open.
fn refused(refusal: &PluginRefusal) -> Finding {
    skipped(format!("the plugin is refused: {}", refusal.cause))
}
