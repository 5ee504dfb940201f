//! Where plugins are looked for, and what lies there.
//!
//! First in the directories that somebody names: on the command line, in the manifest, in the
//! environment. What is not found there is looked for where plugins are installed.

use std::env::consts::DLL_EXTENSION;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use super::{Cause, Inspected, Refusal, inspect};
use crate::diagnostic::Diagnostic;

/// The environment variable with further directories, separated as in `PATH`.
pub const VARIABLE: &str = "SCONCE_PLUGIN_PATH";

/// The plugins in some directories.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The directories, in the order in which they were searched.
    pub directories: Vec<PathBuf>,
    /// The directories of installed plugins that are not there.
    pub absent: Vec<PathBuf>,
    /// The plugins, in the order in which they were found.
    pub plugins: Vec<Inspected>,
    /// Files that are named like libraries and refused.
    pub refused: Vec<Refusal>,
    /// Directories that can't be searched.
    pub problems: Vec<Diagnostic>,
    /// How many of the plugins, the first ones, lie in directories that somebody named.
    named: usize,
    /// The real paths of directories and files that were looked at.
    seen: Vec<PathBuf>,
}

/// Where plugins are installed: those that came with this program in `../lib/sconce/plugins` beside
/// its directory, then the user's own.
pub fn installed_directories() -> Vec<PathBuf> {
    let with_program = || {
        let program = std::fs::canonicalize(std::env::current_exe().ok()?).ok()?;
        Some(program.parent()?.parent()?.join("lib/sconce/plugins"))
    };
    [with_program(), user_directory()]
        .into_iter()
        .flatten()
        .collect()
}

/// The user's directory of plugins: `sconce/plugins` in `$XDG_DATA_HOME`, which is `~/.local/share`
/// where nothing else is said; on Windows in `%APPDATA%`.
pub fn user_directory() -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    Some(base.data_dir().join("sconce").join("plugins"))
}

/// The directories of the environment.
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
    /// Searches directories, first to last; a directory or file that comes twice counts once.
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

    /// Searches the directories where plugins are installed, too. That one is not there is no problem.
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

    /// Without the builds of a plugin that an earlier one stands before.
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

    /// Whether a plugin lies in a directory that somebody named.
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

    /// The refused files that look like plugins: not the libraries that merely lie there too.
    pub fn refused_plugins(&self) -> impl Iterator<Item = &Refusal> {
        self.refused
            .iter()
            .filter(|refusal| refusal.cause != Cause::NoMetadata)
    }
}

/// The files of a directory that are named like libraries, sorted.
pub(crate) fn libraries(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let is_library = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case(DLL_EXTENSION));
        if is_library {
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
