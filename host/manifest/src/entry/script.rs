//! Entries for hooks that are Python files: `{"hook": "hooks/f1.py", "config": {…}}`, which stands for the hook `python`
//! with that file and configuration, and with the environment `.venv` beside the manifest if there is one.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::entry_form::EntryForm;
use crate::{HookEntry, digest};

/// The virtual environment beside the manifest, where the tools of Python put it.
const ENVIRONMENT: &str = ".venv";

/// The longest name that is made of a file's.
const LONGEST_STEM: usize = 100;

/// The hook that runs hooks written in Python.
const PYTHON: &str = "python";

/// Writes out an entry that names a Python file, and takes paths of Python hooks as relative to the manifest's directory.
pub(crate) fn complete(entry: &mut HookEntry, base: &Path) {
    if let Some((file, class)) = named_file(&entry.hook) {
        let mut config = Map::new();
        config.insert("file".to_owned(), file.into());
        if let Some(class) = class {
            config.insert("class".to_owned(), class.into());
        }
        if base.join(ENVIRONMENT).is_dir() {
            config.insert("python".to_owned(), ENVIRONMENT.into());
        }
        let own = std::mem::replace(&mut entry.config, config);
        entry.config.insert("config".to_owned(), own.into());
        PYTHON.clone_into(&mut entry.hook);
        entry.form = EntryForm::Script;
    }
    if entry.hook.rsplit('/').next() == Some(PYTHON) {
        for (key, is_path) in [("file", true), ("python", false)] {
            if let Some(Value::String(path)) = entry.config.get_mut(key)
                // A program's name alone is searched on `PATH`.
                && (is_path || path.starts_with('.') || path.contains('/'))
            {
                *path = base.join(&*path).to_string_lossy().into_owned();
            }
        }
    }
}

/// The name of the Python file that a completed entry names, without `.py`: what the entry is called, unless it is too
/// long for that.
pub(crate) fn stem(entry: &HookEntry) -> Option<&str> {
    if entry.form != EntryForm::Script {
        return None;
    }
    let file = entry.config.get("file")?.as_str()?;
    let stem = Path::new(file).file_stem()?.to_str()?;
    (stem.len() <= LONGEST_STEM).then_some(stem)
}

/// The Python file that an entry names, and the class in it: `hooks/f1.py` or `hooks/f1.py:WorstF1`.
fn named_file(hook: &str) -> Option<(&str, Option<&str>)> {
    let (file, class) = match hook.rsplit_once(':') {
        Some((file, class)) => (file, Some(class)),
        None => (hook, None),
    };
    (Path::new(file).extension()? == "py").then_some((file, class))
}

/// The code of a hook in Python: its own, beside the library that all such hooks have.
#[derive(Clone, Debug)]
pub struct Script {
    /// The file that the manifest names. None for a module, which Python finds.
    pub file: Option<PathBuf>,
}

impl Script {
    /// That of a hook of this kind with this configuration, if it is one in Python.
    pub fn of(kind: &str, config: &Value) -> Option<Script> {
        let file = config.get("file").and_then(Value::as_str);
        (kind == PYTHON).then(|| Script {
            file: file.map(PathBuf::from),
        })
    }

    /// SHA-256 of the file, if there is one that can be read.
    pub fn fingerprint(&self) -> Option<String> {
        let bytes = fs_err::read(self.file.as_ref()?).ok()?;
        Some(digest::fingerprint(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn completed(written: Value) -> HookEntry {
        let mut entry: HookEntry = serde_json::from_value(written).expect("an entry");
        complete(&mut entry, Path::new("lab"));
        entry
    }

    #[test]
    fn a_python_file_stands_for_the_hook_that_runs_it() {
        let entry = completed(json!({"hook": "hooks/f1.py:Worst", "config": {"bins": 5}}));
        let config = json!({"file": "lab/hooks/f1.py", "class": "Worst", "config": {"bins": 5}});
        assert_eq!(entry.hook, "python");
        assert_eq!(Value::from(entry.config), config);
        let entry = completed(json!("f1.py"));
        let config = json!({"file": "lab/f1.py", "config": {}});
        assert_eq!(stem(&entry), Some("f1"));
        assert_eq!(Value::from(entry.config), config);
    }

    #[test]
    fn a_hook_in_python_is_its_file_or_what_python_finds() {
        let file = |kind, config| Script::of(kind, &config).map(|script| script.file);
        let path = Some(PathBuf::from("a.py"));
        assert_eq!(file(PYTHON, json!({"file": "a.py"})), Some(path));
        assert_eq!(file(PYTHON, json!({"module": "lab.a"})), Some(None));
        assert_eq!(file("save-file", json!({"file": "a.py"})), None);
    }

    #[test]
    fn paths_of_python_hooks_start_at_the_manifest() {
        let python = |written: &str| {
            let config = json!({"file": "/abs.py", "python": written});
            let entry = completed(json!({"hook": "sconce-plugin-python/python", "config": config}));
            assert_eq!(entry.config["file"], "/abs.py");
            entry.config["python"].clone()
        };
        assert_eq!(python(".venv"), "lab/.venv");
        assert_eq!(python("env/bin/python"), "lab/env/bin/python");
        assert_eq!(python("python3"), "python3");
        let other = completed(json!({"hook": "save-file", "config": {"file": "x.py"}}));
        assert_eq!(other.config["file"], "x.py");
    }
}
