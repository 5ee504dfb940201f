//! The directories searched for plugins, and what is found there.
//!
//! Directories named by the user come first: on the command line, in the manifest, in the environment. The
//! installation directories are searched only for what is not found there.

use std::env::consts::DLL_EXTENSION;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use crate::plugin::{Cause, Inspected, PluginRefusal, inspect};
use crate::subprocess;
use sconce_manifest::diagnostic::Diagnostic;

/// Environment variable with further directories, separated as in `PATH`.
pub const VARIABLE: &str = "SCONCE_PLUGIN_PATH";

/// The plugins found in some directories.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The directories searched, in order.
    pub directories: Vec<PathBuf>,
    /// Installation directories that do not exist.
    pub absent: Vec<PathBuf>,
    /// The plugins, in the order in which they were found.
    pub plugins: Vec<Inspected>,
    /// Files named like libraries that were refused.
    pub refused: Vec<PluginRefusal>,
    /// Problems with directories that can't be searched.
    pub problems: Vec<Diagnostic>,
    /// Number of plugins, from the start of the list, that are in directories named by the user.
    named: usize,
    /// Canonical paths of the directories and files already visited.
    seen: Vec<PathBuf>,
}

/// The installation directories. First that of the plugins shipped with this program, `../lib/sconce/plugins`
/// relative to its directory, then the user's own.
pub fn installed_directories() -> Vec<PathBuf> {
    let with_program = || {
        let program = std::fs::canonicalize(subprocess::executable().ok()?).ok()?;
        Some(program.parent()?.parent()?.join("lib/sconce/plugins"))
    };
    [with_program(), user_directory()]
        .into_iter()
        .flatten()
        .collect()
}

/// The user's plugin directory. It is `sconce/plugins` in `$XDG_DATA_HOME`, by default `~/.local/share`; on
/// Windows in `%APPDATA%`.
pub fn user_directory() -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    Some(base.data_dir().join("sconce").join("plugins"))
}

/// The directories given in the environment variable.
pub fn from_environment() -> Vec<PathBuf> {
    std::env::var_os(VARIABLE)
        .map(|value| {
            let directories = std::env::split_paths(&value);
            directories
                .filter(|path| !path.as_os_str().is_empty())
                .collect()
        })
        .unwrap_or_default()
}

impl Inventory {
    /// Searches directories in order; a directory or file that occurs twice is visited once.
    pub fn search<'a>(directories: impl IntoIterator<Item = &'a PathBuf>) -> Inventory {
        let mut inventory = Inventory::default();
        for directory in directories {
            if let Err(error) = inventory.look_into(directory) {
                inventory.problems.push(unreadable(directory, &error));
            }
        }
        inventory.named = inventory.plugins.len();
        inventory
    }

    /// Also searches the installation directories. One that does not exist is not a problem.
    #[must_use]
    pub fn with_installed(mut self) -> Inventory {
        for directory in installed_directories() {
            match self.look_into(&directory) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => self.absent.push(directory),
                Err(error) => self.problems.push(unreadable(&directory, &error)),
            }
        }
        self
    }

    /// Removes builds of a plugin that are shadowed by an earlier one.
    #[must_use]
    pub fn without_shadowed(mut self) -> Inventory {
        let mut seen: Vec<String> = Vec::new();
        let mut is_first = |plugin: &Inspected| {
            let name = &plugin.metadata.name;
            let is_new = !seen.contains(name);
            if is_new {
                seen.push(name.clone());
            }
            is_new
        };
        let installed = self.plugins.split_off(self.named);
        self.plugins.retain(&mut is_first);
        self.named = self.plugins.len();
        self.plugins.extend(installed.into_iter().filter(is_first));
        self
    }

    /// Whether a plugin is in a directory named by the user.
    pub(super) fn is_named(&self, plugin: &Inspected) -> bool {
        let named = self.plugins.get(..self.named).unwrap_or_default();
        named.iter().any(|other| other.path == plugin.path)
    }

    fn look_into(&mut self, directory: &Path) -> std::io::Result<()> {
        let real = std::fs::canonicalize(directory)?;
        if self.seen.contains(&real) {
            return Ok(());
        }
        self.seen.push(real);
        self.directories.push(directory.to_owned());
        for path in libraries(directory)? {
            let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
            if !self.seen.contains(&real) {
                self.seen.push(real);
                self.add_file(&path);
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path) {
        match inspect(path) {
            Ok(plugin) => self.plugins.push(plugin),
            Err(refusal) => self.refused.push(refusal),
        }
    }

    /// The refused files that look like plugins, without other libraries that happen to be in the directory.
    pub fn refused_plugins(&self) -> impl Iterator<Item = &PluginRefusal> {
        self.refused
            .iter()
            .filter(|refusal| refusal.cause != Cause::NoMetadata)
    }
}

/// The library with all of this program's own code, which is no plugin and large; in a checkout it lies beside plugins.
const OWN: &str = "libsconce.so";

/// The files in a directory that are named like libraries, sorted, without this program's own.
pub fn libraries(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let is_library = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case(DLL_EXTENSION));
        if is_library && path.file_name().is_none_or(|name| name != OWN) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn unreadable(directory: &Path, error: &std::io::Error) -> Diagnostic {
    let mut diagnostic = Diagnostic::new(format!(
        "the plugin directory `{}` can't be searched: {error}",
        directory.display()
    ));
    if let Ok(absolute) = std::path::absolute(directory)
        && absolute != directory
    {
        diagnostic = diagnostic.note(format!("directory: {}", absolute.display()));
    }
    diagnostic
}
