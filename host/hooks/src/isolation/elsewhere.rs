//! Systems without processes for hooks: an entry that asks for one is refused.

use std::path::Path;
use std::time::Duration;

use sconce_plugin_api::abi::{SetupAbi, Status};
use serde_json::Value;

use crate::exit;
use crate::plugin::blueprint::{HookFacts, LibraryApart};
use crate::plugin::entry_error::EntryError;
use crate::plugin::instance::HookInstance;
use crate::plugin::{Cause, PluginRefusal};
use sconce_manifest::SandboxRules;

/// Why there is no such process.
const WHY: &str = "hooks have processes of their own on Linux alone: take `isolation` and `sandbox` out of its entry";

/// A library in a process of its own, of which there are none.
#[derive(Debug)]
pub struct IsolatedLibrary {
    /// The plugin's description.
    pub description: Value,
}

impl IsolatedLibrary {
    /// Refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub(crate) fn open(
        path: &Path,
        _file: &Path,
        _sandbox: Option<SandboxRules>,
        _load_limit: Duration,
        _call_limit: Option<Duration>,
    ) -> Result<IsolatedLibrary, PluginRefusal> {
        Err(PluginRefusal::new(path, Cause::Isolated(WHY.to_owned())))
    }
}

impl LibraryApart for IsolatedLibrary {
    fn create(
        &self,
        _kind: &str,
        _config: &str,
        _setup: &SetupAbi,
        facts: HookFacts,
    ) -> Result<HookInstance, EntryError> {
        let HookFacts {
            name, plugin, file, ..
        } = facts;
        Err(EntryError {
            status: Status::UNSUPPORTED.0,
            message: format!("{WHY} (`{name}` of {plugin}, {})", file.display()),
            place: String::new(),
        })
    }
}

/// The report of a hook's crash, of which there is none.
pub fn crash_report_path(directory: &Path, hook: &str) -> std::path::PathBuf {
    directory.join(hook)
}

/// Landlock's version, of which there is none.
pub fn landlock_version() -> String {
    "none (it is Linux's)".to_owned()
}

/// The hidden subcommand, which nothing starts here.
pub fn answer(_parent: u32, _files: &[i32], _library: &Path, _rules: &str) -> u8 {
    exit::USAGE
}
