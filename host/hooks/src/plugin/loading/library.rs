//! Opens a plugin's library: the gates that execute its code.
//!
//! Whatever can be checked from the file alone has been checked before, by [`inspect`](crate::plugin::inspect()).
//! Libraries stay open for the lifetime of the process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use abi_stable::library::{LibraryError, lib_header_from_path};
use abi_stable::std_types::RString;
use sconce_plugin_api::abi::{ABI_EPOCH, API_VERSION, ErrorAbi, PluginRootRef, Status, TextAbi};
use sconce_plugin_api::ext::Extension;
use serde_json::Value;

use super::c_root::CRoot;
#[cfg(target_os = "linux")]
use super::companions::Loaded;
use super::entries::{CreateEntry, open_now};
use super::entry_error::EntryError;
use super::surroundings::ProcessSurroundings;
use crate::faults::Origin;
use crate::plugin::refusal::{Cause, PluginRefusal};
#[cfg(target_os = "linux")]
use crate::plugin::signature;

/// Whether a library's code has run in this process.
static IS_ANY_OPEN: AtomicBool = AtomicBool::new(false);

/// Whether library code has run in this process; more of it may run at exit.
pub fn is_any_open() -> bool {
    IS_ANY_OPEN.load(Ordering::Relaxed)
}

/// An opened plugin whose types have the layout that this host was built with.
#[derive(Clone)]
pub struct Library {
    path: PathBuf,
    root: Root,
    warnings: Vec<String>,
}

impl Library {
    /// Opens the library at `path`, which has passed the earlier gates.
    ///
    /// Opening the same file twice gives the same library; its hooks are created separately, by
    /// [`create`](crate::plugin::instance::HookInstance::create).
    pub fn open(path: &Path) -> Result<Library, PluginRefusal> {
        // The system's loader would look up a bare file name in its own directories.
        let path = std::fs::canonicalize(path)
            .map_err(|error| PluginRefusal::new(path, Cause::Read(error.to_string())))?;
        Library::open_from(&path, &path)
    }

    /// Opens the library at `path` through `file`, its private copy. Side effects of its constructors on this
    /// process are detected and undone.
    pub fn open_from(path: &Path, file: &Path) -> Result<Library, PluginRefusal> {
        let before = ProcessSurroundings::look();
        #[cfg(target_os = "linux")]
        let loaded = signature::is_demanded(path).then(Loaded::now);
        let opened = Library::open_quietly(file);
        let changes = before.restore("when it was opened");
        #[cfg(target_os = "linux")]
        if let Some(strangers) = loaded.map(|loaded| loaded.strangers(file))
            && !strangers.is_empty()
        {
            return Err(PluginRefusal::new(path, Cause::Companions(strangers)));
        }
        let mut library = opened.map_err(|refusal| PluginRefusal::new(path, refusal.cause))?;
        path.clone_into(&mut library.path);
        library.warnings = told(path, changes);
        Ok(library)
    }

    /// Opens the library at the absolute `path`, without checking for side effects.
    pub(crate) fn open_quietly(path: &Path) -> Result<Library, PluginRefusal> {
        IS_ANY_OPEN.store(true, Ordering::Relaxed);
        let origin = Origin::here();
        let opened = open_with_all_symbols(path);
        // Constructors have run, and may have forked.
        origin.check();
        opened?;
        let root = root_of(path);
        origin.check();
        Ok(Library {
            path: path.to_owned(),
            root: root?,
            warnings: Vec::new(),
        })
    }

    /// Where the library is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Process-wide changes made by opening the library, which the host has undone.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The plugin's description: its metadata, and schemas of its hooks. The JSON Schema of a hook's
    /// configuration is under `hooks[].config_schema`. Runs the plugin's code.
    pub fn describe(&self) -> Result<Value, PluginRefusal> {
        let describe = match &self.root {
            Root::Rust(root) => root.describe(),
            Root::C(root) => match root.describe {
                Some(describe) => describe,
                None => return Ok(root.description.clone()),
            },
        };
        let mut text = RString::new();
        let mut error = ErrorAbi::new();
        let origin = Origin::here();
        // SAFETY: the layout of the root module was checked when it was opened; both output locations are
        // valid for the call.
        let status = unsafe { describe(&raw mut text, &raw mut error) };
        origin.check();
        if status != Status::OK.0 {
            let message = EntryError::read(status, &mut error).message;
            return Err(self.refuse(Cause::Describe(message)));
        }
        serde_json::from_slice(text.as_str().as_bytes())
            .map_err(|error| self.refuse(Cause::Describe(error.to_string())))
    }

    /// Like [`describe`](Library::describe), but undoes and reports changes to this process.
    pub fn describe_watched(&self) -> (Result<Value, PluginRefusal>, Vec<String>) {
        let before = ProcessSurroundings::look();
        let description = self.describe();
        let changes = before.restore("when it described itself");
        (description, told(&self.path, changes))
    }

    /// Checks a hook's kind and configuration on behalf of a plugin in C. Plugins in Rust do so themselves.
    pub(in crate::plugin) fn check_creation(
        &self,
        kind: &str,
        config: &str,
    ) -> Result<(), EntryError> {
        match &self.root {
            Root::Rust(_) => Ok(()),
            Root::C(root) => root.check_creation(kind, config),
        }
    }

    /// Its function that creates hooks.
    pub(in crate::plugin) fn create_entry(&self) -> CreateEntry {
        match &self.root {
            Root::Rust(root) => root.create(),
            Root::C(root) => root.create,
        }
    }

    /// The plugin's own table for an extension, if it has one. It lives as long as the process.
    pub fn extension<T: Extension>(&self) -> Option<&'static T> {
        let query = match &self.root {
            Root::Rust(root) => root.query(),
            Root::C(root) => root.query?,
        };
        let origin = Origin::here();
        // SAFETY: the identifier is a literal; the plugin answers with null or a table that lives as long as its
        // library, which is never unloaded, with the layout frozen under that identifier (the contract of `Extension`).
        let table = unsafe { query(TextAbi::new(T::ID)).cast::<T>().as_ref() };
        origin.check();
        table
    }

    fn refuse(&self, cause: Cause) -> PluginRefusal {
        PluginRefusal::new(&self.path, cause)
    }
}

/// What a library exports.
#[derive(Clone)]
enum Root {
    /// The root module of a plugin in Rust.
    Rust(PluginRootRef),
    /// The plugin that a library in C or C++ returned.
    C(Arc<CRoot>),
}

/// Formats changes made by a library as warnings.
fn told(path: &Path, changes: Vec<String>) -> Vec<String> {
    let told = |change| format!("`{}` {change}", path.display());
    changes.into_iter().map(told).collect()
}

/// Opens the library and binds all symbols at once. `abi_stable` binds lazily, so a missing function would
/// end the process in the middle of training.
fn open_with_all_symbols(path: &Path) -> Result<(), PluginRefusal> {
    // SAFETY: loading runs the library's constructors; using plugins at all requires that the user trusts
    // those listed in the manifest.
    let library = unsafe { open_now(path) };
    match library {
        Ok(library) => {
            // Never unloaded: hooks, their threads and thread-locals may outlive any point at which unloading
            // would be sound.
            std::mem::forget(library);
            Ok(())
        }
        Err(error) => Err(PluginRefusal::new(path, Cause::Open(with_sources(&error)))),
    }
}

/// Formats an error with its chain of sources, which ends with the system's message.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The library's own root module. Not through `RootModule::load_from_file`, which would return the first
/// library of that type again.
fn root_of(path: &Path) -> Result<Root, PluginRefusal> {
    let refuse = |cause| PluginRefusal::new(path, cause);
    let header = match lib_header_from_path(path) {
        Ok(header) => header,
        Err(error @ LibraryError::GetSymbolError { .. }) => {
            let root = CRoot::of(path).unwrap_or_else(|| Err(header_cause(&error)));
            return root.map(|root| Root::C(Arc::new(root))).map_err(refuse);
        }
        Err(error) => return Err(refuse(header_cause(&error))),
    };
    if header.layout().is_none() {
        return Err(refuse(Cause::LayoutMissing));
    }
    let version = header.version_strings().version.as_str();
    let root = header
        .init_root_module::<PluginRootRef>()
        .map_err(|error| refuse(layout_cause(&error, version)))?;
    if root.abi_epoch() != ABI_EPOCH {
        return Err(refuse(Cause::AbiEpoch {
            host: ABI_EPOCH,
            plugin: root.abi_epoch(),
        }));
    }
    Ok(Root::Rust(root))
}

fn header_cause(error: &LibraryError) -> Cause {
    match error {
        LibraryError::GetSymbolError { .. } => Cause::NoRoot,
        LibraryError::InvalidAbiHeader(header) => Cause::AbiStable {
            plugin: format!("{}.{}", header.abi_major, header.abi_minor),
        },
        other => Cause::Open(other.to_string()),
    }
}

fn layout_cause(error: &LibraryError, plugin: &str) -> Cause {
    match error {
        LibraryError::IncompatibleVersionNumber { .. } => Cause::ApiVersion {
            host: API_VERSION.to_owned(),
            plugin: plugin.to_owned(),
        },
        // The full text is pages of type dumps; its first lines say which type differs.
        LibraryError::AbiInstability(details) => Cause::Layout {
            host: API_VERSION.to_owned(),
            plugin: plugin.to_owned(),
            details: first_lines(&details.to_string(), 12),
        },
        LibraryError::RootModule { err, .. } => {
            let said = err.to_string();
            Cause::Root(match said.trim() {
                // The panic message has already been printed.
                "" => "it panicked".to_owned(),
                said => said.to_owned(),
            })
        }
        other => Cause::Root(other.to_string()),
    }
}

fn first_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .take(count)
        .collect();
    lines.join("\n")
}
