//! `trust.json`: the keys that a user trusts, and what happens to plugins that none of them has signed.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::key::Key;
use super::state::SignatureState;
use sconce_base::files;
use sconce_manifest::diagnostic::Diagnostic;
use sconce_manifest::document;

/// Environment variable with the path of another file.
pub const VARIABLE: &str = "SCONCE_TRUST";

/// Largest file that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// A user's trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustStore {
    /// The keys, in the file's order. Several may have one name, while a signer changes keys.
    pub keys: Vec<TrustedKey>,
    /// What happens to plugins that none of the keys has signed.
    pub unsigned: UnsignedPolicy,
    /// Files and directories of plugins that may be unsigned nevertheless.
    pub except: Vec<PathBuf>,
}

/// A key with the name that its user gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKey {
    /// The name, for messages and `signed_by`.
    pub name: String,
    /// The key.
    pub key: Key,
}

/// What happens to a plugin that no trusted key has signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnsignedPolicy {
    /// It is loaded.
    #[default]
    Allow,
    /// It is loaded, with a warning.
    Warn,
    /// It is refused.
    Refuse,
}

/// The file's content.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TrustFile {
    /// Trusted keys.
    keys: Vec<KeyEntry>,
    /// What happens to plugins that none of the keys has signed.
    unsigned: UnsignedPolicy,
    /// Absolute paths of files and directories whose plugins may be unsigned nevertheless; `~/` is the home directory.
    except: Vec<String>,
}

/// A trusted key.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    /// Name of the signer.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9._-]+$"))]
    name: String,
    /// Public key of minisign.
    key: String,
}

/// Checks the name of a key: letters, digits, `.`, `_` and `-`, at most 64.
pub fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=64).contains(&name.len()) && name.chars().all(is_part)
}

/// The file: the variable's, or `sconce/trust.json` in the user's configuration directory (`$XDG_CONFIG_HOME`, by default
/// `~/.config`; on Windows `%APPDATA%`). `None` without a home directory.
pub fn file() -> Option<PathBuf> {
    if let Some(file) = named_file() {
        return Some(file);
    }
    let base = etcetera::choose_base_strategy().ok()?;
    Some(base.config_dir().join("sconce").join("trust.json"))
}

/// The file that the variable names.
fn named_file() -> Option<PathBuf> {
    let file = std::env::var_os(VARIABLE).filter(|file| !file.is_empty());
    file.map(PathBuf::from)
}

impl TrustStore {
    /// Reads the user's file. Where there is none, no key is trusted and everything is allowed.
    ///
    /// # Errors
    ///
    /// If it can't be read or is not valid, or if the variable names a file that does not exist.
    pub fn load() -> Result<TrustStore, Vec<Diagnostic>> {
        match file() {
            Some(file) if file.exists() || named_file().is_some() => TrustStore::read(&file),
            _ => Ok(TrustStore::default()),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it can't be read or is not valid, with the place of each problem.
    pub fn read(file: &Path) -> Result<TrustStore, Vec<Diagnostic>> {
        let text = document::read_text(file, LARGEST).map_err(|error| {
            let problem = format!("the trusted keys in `{}` can't be read: {error}", file.display());
            vec![Diagnostic::new(problem).hint(format!(
                "mend the file; `{VARIABLE}` names it if that is set, and `sconce trust list` shows what is in it"
            ))]
        })?;
        let (content, source) = document::parse::<TrustFile>(file, &text)?;
        let mut problems = Vec::new();
        let mut store = TrustStore {
            unsigned: content.unsigned,
            ..TrustStore::default()
        };
        for (index, KeyEntry { name, key }) in content.keys.into_iter().enumerate() {
            match Key::parse(&key) {
                Ok(key) => store.keys.push(TrustedKey { name, key }),
                Err(message) => problems.push(
                    Diagnostic::new(message)
                        .at(source.location(&format!("keys[{index}].key")))
                        .hint("copy the second line of the signer's `.pub` file"),
                ),
            }
        }
        for (index, path) in content.except.iter().enumerate() {
            match absolute(path) {
                Some(path) => store.except.push(path),
                None => problems.push(
                    Diagnostic::new(format!("`{path}` is not an absolute path"))
                        .at(source.location(&format!("except[{index}]")))
                        .hint("begin it with `/` or `~/`"),
                ),
            }
        }
        if problems.is_empty() {
            Ok(store)
        } else {
            Err(problems)
        }
    }

    /// Writes the file, and makes its directory.
    ///
    /// # Errors
    ///
    /// If it can't be written.
    pub fn write(&self, file: &Path) -> std::io::Result<()> {
        let keys = self.keys.iter().map(|trusted| KeyEntry {
            name: trusted.name.clone(),
            key: trusted.key.to_string(),
        });
        let except = self.except.iter();
        let content = TrustFile {
            keys: keys.collect(),
            unsigned: self.unsigned,
            except: except
                .map(|path| path.to_string_lossy().into_owned())
                .collect(),
        };
        let text = format!("{}\n", serde_json::to_string_pretty(&content)?);
        if let Some(directory) = file.parent() {
            fs_err::create_dir_all(directory)?;
        }
        files::write_atomically(file, text.as_bytes())
    }

    /// Whether the plugin at a path may be unsigned whatever the policy is.
    pub(in crate::plugin) fn excepts(&self, path: &Path) -> bool {
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        let Some(path) = real(path) else {
            return false;
        };
        let mut excepted = self.except.iter().filter_map(|place| real(place));
        excepted.any(|place| path.starts_with(place))
    }

    /// The warning about a plugin that no trusted key has signed, or that has something loaded from `outside` of the system's
    /// directories, if the user wants one.
    pub fn warning(
        &self,
        path: &Path,
        state: &SignatureState,
        outside: &[String],
    ) -> Option<Diagnostic> {
        if self.unsigned != UnsignedPolicy::Warn || self.excepts(path) {
            return None;
        }
        let what = if !state.is_trusted() {
            state.to_string()
        } else if !outside.is_empty() {
            format!("{state}, but has other libraries loaded that no signature covers")
        } else {
            return None;
        };
        let warning = format!("the plugin `{}` is {what}", path.display());
        Some(Diagnostic::warning(warning))
    }

    /// Names of the keys, each once.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.keys.iter().map(|key| key.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// A path without `~`; `None` if it is relative.
fn absolute(path: &str) -> Option<PathBuf> {
    let path = match path.strip_prefix("~/") {
        Some(below) => etcetera::home_dir().ok()?.join(below),
        None => PathBuf::from(path),
    };
    path.is_absolute().then_some(path)
}
