//! Where plugins are looked for, and what lies there.

use std::env::consts::DLL_EXTENSION;
use std::path::{Path, PathBuf};

use super::{Cause, Inspected, Refusal, inspect};
use crate::diagnostic::Diagnostic;

/// The environment variable with further directories, separated as in `PATH`.
pub const VARIABLE: &str = "SCONCE_PLUGIN_PATH";

/// The plugins in some directories.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The directories, in the order in which they were searched.
    pub directories: Vec<PathBuf>,
    /// The plugins, in the order in which they were found.
    pub plugins: Vec<Inspected>,
    /// Files that are named like libraries and refused.
    pub refused: Vec<Refusal>,
    /// Directories that can't be searched.
    pub problems: Vec<Diagnostic>,
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
        let mut seen: Vec<PathBuf> = Vec::new();
        for directory in directories {
            match std::fs::canonicalize(directory) {
                Ok(real) if seen.contains(&real) => {}
                Ok(real) => {
                    seen.push(real);
                    inventory.add(directory, &mut seen);
                }
                Err(error) => inventory.problems.push(unreadable(directory, &error)),
            }
        }
        inventory
    }

    fn add(&mut self, directory: &Path, seen: &mut Vec<PathBuf>) {
        self.directories.push(directory.to_owned());
        match libraries(directory) {
            Ok(paths) => {
                for path in paths {
                    let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
                    if !seen.contains(&real) {
                        seen.push(real);
                        self.add_file(&path);
                    }
                }
            }
            Err(error) => self.problems.push(unreadable(directory, &error)),
        }
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
fn libraries(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
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
