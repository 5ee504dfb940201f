//! How a hook of a run is created, for its creation and for every later one: a restart, a reload.

use std::fmt;
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;

use sconce_plugin_api::abi::{SetupAbi, TextAbi};

use super::entry_error::EntryError;
use super::instance::HookInstance;
use super::library::Library;
use crate::bridge::{self, BridgeState};

/// A library that is opened in other processes, one for each of its hooks.
pub trait LibraryApart: fmt::Debug + Send + Sync {
    /// Creates a hook in a process of its own.
    ///
    /// # Errors
    ///
    /// The hook's or the plugin's error, or how the process ended.
    fn create(
        &self,
        kind: &str,
        config: &str,
        setup: &SetupAbi,
        facts: HookFacts,
    ) -> Result<HookInstance, EntryError>;
}

/// What a report of a hook's end names.
#[derive(Clone, Debug)]
pub struct HookFacts {
    /// Name of the hook in the run.
    pub(crate) name: String,
    /// Name of the plugin.
    pub(crate) plugin: String,
    /// File of the plugin.
    pub(crate) file: PathBuf,
    /// The run's directory.
    pub(crate) run_directory: PathBuf,
    /// Whether its state is saved after each cycle, for a restart.
    pub(crate) keeps_state: bool,
}

/// A hook's library, opened.
#[derive(Clone)]
pub enum HookLibrary {
    /// In this process.
    Here(Library),
    /// In processes of the hook's own.
    Apart(Arc<dyn LibraryApart>),
}

/// How a hook of a run is created.
#[derive(Clone)]
pub struct HookBlueprint {
    /// The opened library.
    pub library: HookLibrary,
    /// Name of the hook in the plugin.
    pub kind: String,
    /// Its configuration as JSON.
    pub config: String,
    /// The resolved manifest as JSON.
    pub manifest: Arc<str>,
    /// The run's directory.
    pub directory: PathBuf,
    /// The run's seed.
    pub seed: u64,
    /// Name of the hook in the run.
    pub name: String,
    /// Name of the plugin.
    pub plugin: String,
    /// File of the plugin.
    pub file: PathBuf,
    /// The file that was opened.
    pub opened: PathBuf,
    /// Whether a process of its own saves its state after each cycle, for a restart.
    pub keeps_state: bool,
}

impl std::fmt::Debug for HookBlueprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HookBlueprint")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl HookBlueprint {
    /// Creates the hook. The current hook of `shared` must be this one.
    ///
    /// # Errors
    ///
    /// The hook's or the plugin's error.
    pub fn create(&self, shared: &BridgeState<'_>) -> Result<HookInstance, EntryError> {
        let directory = self.directory.to_string_lossy();
        let setup = SetupAbi {
            host: ptr::from_ref(bridge::root()),
            context: shared.context(),
            name: TextAbi::new(&self.name),
            run_directory: TextAbi::new(&directory),
            manifest: TextAbi::new(&self.manifest),
            seed: self.seed,
        };
        match &self.library {
            HookLibrary::Here(library) => {
                HookInstance::create(library, &self.kind, &self.config, &setup)
            }
            HookLibrary::Apart(library) => {
                let facts = HookFacts {
                    name: self.name.clone(),
                    plugin: self.plugin.clone(),
                    file: self.file.clone(),
                    run_directory: self.directory.clone(),
                    keeps_state: self.keeps_state,
                };
                library.create(&self.kind, &self.config, &setup, facts)
            }
        }
    }
}
