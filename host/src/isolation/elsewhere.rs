//! Systems without processes for hooks: an entry that asks for one is refused.

use std::ffi::c_void;
use std::path::Path;
use std::time::Duration;

use abi_stable::std_types::RVec;
use sconce_plugin_api::abi::{ErrorAbi, HookTable, SetupAbi, Status, ViewAbi};
use serde_json::Value;

use super::{HookFacts, SandboxRules};
use crate::exit;
use crate::plugin::entry_error::EntryError;
use crate::plugin::instance::HookInstance;
use crate::plugin::{Cause, PluginRefusal};

/// Why there is no such process.
const WHY: &str = "hooks have processes of their own on Linux alone: take `isolation` and `sandbox` out of its entry";

/// A library in a process of its own, of which there are none.
#[derive(Debug)]
pub(crate) struct IsolatedLibrary {
    /// The plugin's description.
    pub(crate) description: Value,
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

    /// Refuses.
    ///
    /// # Errors
    ///
    /// Always.
    pub(crate) fn create(
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

/// A hook in another process, of which there are none.
#[derive(Debug)]
pub(crate) enum Proxy {}

impl Proxy {
    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        match *self {}
    }

    /// Whether other ranks have seen something of its last call.
    pub(crate) fn was_seen_by_others(&self) -> bool {
        match *self {}
    }

    /// The state that was saved last.
    pub(crate) fn last_state(&self) -> Option<&[u8]> {
        match *self {}
    }

    /// Ends the process.
    pub(crate) fn abandon(&mut self) {
        match *self {}
    }
}

/// Functions that nothing calls.
pub(crate) static PROXY_TABLE: HookTable = HookTable {
    call,
    save_state,
    load_state,
    drop: drop_hook,
};

unsafe extern "C" fn call(_: *mut c_void, _: u32, _: *const ViewAbi, _: *mut ErrorAbi) -> u32 {
    Status::UNSUPPORTED.0
}

unsafe extern "C" fn save_state(_: *mut c_void, _: *mut RVec<u8>, _: *mut ErrorAbi) -> u32 {
    Status::UNSUPPORTED.0
}

unsafe extern "C" fn load_state(_: *mut c_void, _: *const u8, _: usize, _: *mut ErrorAbi) -> u32 {
    Status::UNSUPPORTED.0
}

unsafe extern "C" fn drop_hook(_: *mut c_void, _: *mut ErrorAbi) -> u32 {
    Status::OK.0
}

/// The report of a hook's crash, of which there is none.
pub(crate) fn crash_report_path(directory: &Path, hook: &str) -> std::path::PathBuf {
    directory.join(hook)
}

/// Landlock's version, of which there is none.
pub(crate) fn landlock_version() -> String {
    "none (it is Linux's)".to_owned()
}

/// The hidden subcommand, which nothing starts here.
pub(crate) fn answer(_parent: u32, _files: &[i32], _library: &Path, _rules: &str) -> u8 {
    exit::USAGE
}
