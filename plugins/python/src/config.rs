//! What is under `config` in the entry of a hook in Python.

use std::path::PathBuf;

use schemars::JsonSchema;
use sconce_plugin_api::{HookError, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Configuration of the `python` hook.
#[expect(
    clippy::struct_field_names,
    reason = "`config` is the key that every entry of a manifest has for it"
)]
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The Python file with the hook, relative to the manifest. Either this or `module`.
    pub(crate) file: Option<PathBuf>,
    /// The module with the hook, as `import` takes it: `lab.hooks.roc`. Either this or `file`.
    pub(crate) module: Option<String>,
    /// Number that `sconce.train` gives to a class or an instance of its own process; without meaning in any other.
    pub(crate) object: Option<u64>,
    /// The hook's class. Default: the only subclass of `sconce.Hook`.
    pub(crate) class: Option<String>,
    /// The interpreter, or the directory of the environment, such as `.venv`, relative to the manifest. Default: `VIRTUAL_ENV`, `CONDA_PREFIX`,
    /// or `python3` on `PATH`; in Python's own process that one. All hooks of a process use the same one.
    pub(crate) python: Option<PathBuf>,
    /// The hook's own configuration, checked against the class's `Config`. Default: empty.
    pub(crate) config: Map<String, Value>,
    /// Seconds after which a Python thread that computes lets others run, from 0.00001 to 1: a call waits for the
    /// hook's own background threads at most this long, each. Default 0.0005; Python's is 0.005.
    #[schemars(range(min = 0.00001, max = 1))]
    pub(crate) switch_interval: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            file: None,
            module: None,
            object: None,
            class: None,
            python: None,
            config: Map::new(),
            switch_interval: 0.0005,
        }
    }
}

impl Config {
    /// Absolute path of the file, and the module; one of them is empty.
    pub(crate) fn source(&self) -> Result<(String, &str)> {
        if self.object.is_some() && self.file.is_none() && self.module.is_none() {
            return Ok((String::new(), ""));
        }
        match (&self.file, &self.module) {
            (Some(_), Some(_)) => Err(HookError::new(
                "there are both `file` and `module`: keep one",
            )
            .in_config("module")),
            (None, None) => Err(HookError::new(
                "there is neither `file` nor `module`: one of them says where the hook is",
            )
            .in_config("")),
            (None, Some(module)) => Ok((String::new(), module)),
            (Some(file), None) => {
                let shown = file.display();
                let wrong =
                    |problem: std::fmt::Arguments<'_>| HookError::new(problem).in_config("file");
                let path = std::path::absolute(file)
                    .map_err(|error| wrong(format_args!("can't read `{shown}`: {error}")))?;
                if path.is_dir() {
                    return Err(wrong(format_args!(
                        "`{shown}` is a directory: name the Python file in it"
                    )));
                }
                if !path.is_file() {
                    return Err(wrong(format_args!(
                        "can't read `{shown}`: there is no such file (`{}`); relative paths start at the manifest's \
                         directory",
                        path.display()
                    )));
                }
                let text = path
                    .to_str()
                    .ok_or_else(|| wrong(format_args!("the path `{shown}` is not valid UTF-8")))?;
                Ok((text.to_owned(), ""))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_in_a_file_or_a_module() {
        let message = |config: &Config| config.source().unwrap_err().message().to_owned();
        let mut config = Config::default();
        assert!(message(&config).starts_with("there is neither"));
        config.module = Some("lab.roc".into());
        assert_eq!(config.source().ok(), Some((String::new(), "lab.roc")));
        config.file = Some("no/such.py".into());
        assert!(message(&config).starts_with("there are both"));
        config.module = None;
        assert!(message(&config).starts_with("can't read `no/such.py`: there is no such file"));
        config.file = Some("src".into());
        assert!(message(&config).contains("is a directory"));
    }
}
