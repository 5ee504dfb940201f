//! What a hook in Python needs in a sandbox: the interpreter, which can't be run behind the walls, is asked before they go
//! up, and it may be read, as may the hook's file and the Python files beside it.

use std::path::{Path, PathBuf};

use sconce_python_interpreter::{VARIABLE, find};
use serde::Deserialize;

/// The hook that runs others, in Python.
const HOOK: &str = "python";

/// What its process gets besides its rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Preparation {
    /// More files and directories that it may read.
    pub(super) read: Vec<PathBuf>,
    /// Directories whose files' names it may read: `import` looks there.
    pub(super) list: Vec<PathBuf>,
    /// A variable for its environment.
    pub(super) variable: Option<(&'static str, String)>,
}

/// Of the configuration of a hook in Python, where its files are.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Places {
    file: Option<PathBuf>,
    python: Option<PathBuf>,
}

impl Preparation {
    /// What a hook of this kind needs, with this configuration as JSON; nothing if it is not in Python, or if it will refuse
    /// its configuration.
    ///
    /// # Errors
    ///
    /// If there is no interpreter, for the user.
    pub(super) fn of(kind: &str, config: &str) -> Result<Preparation, String> {
        if kind != HOOK {
            return Ok(Preparation::default());
        }
        let places: Places = serde_json::from_str(config).unwrap_or_default();
        let interpreter = find(places.python.as_deref()).map_err(|error| error.message)?;
        let variable = interpreter.handed_over();
        let variable =
            variable.map_err(|error| format!("its Python can't be described: {error}"))?;
        let mut read = interpreter.readable;
        read.extend([interpreter.found, interpreter.library]);
        // Without a file, a module is looked for in the directory of the manifest.
        let file = places.file.unwrap_or_default();
        let beside = match file.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        read.push(file);
        read.extend(modules(&beside));
        Ok(Preparation {
            read,
            list: vec![beside],
            variable: Some((VARIABLE, variable)),
        })
    }
}

/// The modules in a directory: files and packages.
fn modules(directory: &Path) -> Vec<PathBuf> {
    let is_module = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "py") || path.join("__init__.py").is_file()
    };
    let entries = directory.read_dir().into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(is_module)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hooks_in_python_are_prepared_for() {
        let none = Preparation::of("csv", r#"{"file": "/etc/passwd"}"#).expect("nothing to find");
        assert!(none.read.is_empty() && none.variable.is_none());
        let missing = Preparation::of(HOOK, r#"{"python": "/no/such/venv"}"#);
        let message = missing.expect_err("it is not there");
        assert!(message.contains("/no/such/venv"), "{message}");
    }

    #[test]
    fn of_a_directory_python_files_and_packages_are_read() {
        let place = tempfile::tempdir().expect("a directory");
        for name in ["a.py", ".env", "data.csv", "lab/__init__.py", "other/b.py"] {
            let path = place.path().join(name);
            let parent = path.parent().expect("in the directory");
            std::fs::create_dir_all(parent).expect("made");
            std::fs::write(path, "").expect("written");
        }
        let mut found = modules(place.path());
        found.sort();
        assert_eq!(found, ["a.py", "lab"].map(|name| place.path().join(name)));
        assert!(modules(Path::new("/no/such/directory")).is_empty());
    }
}
