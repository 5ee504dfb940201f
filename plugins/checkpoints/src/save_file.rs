//! The `save-file` hook: copies files into the run directory, with their hashes.
//!
//! `{"hook": "save-file", "config": {"files": ["train.py", "configs/*.json"]}}`
//!
//! This keeps a run's source files together with its results. `SHA256SUMS` in the same directory can be
//! checked with `sha256sum -c`.

use std::fmt::Write;
use std::fs;
use std::path::{Component, Path, PathBuf};

use sconce_plugin_api::ext::check_path;
use sconce_plugin_api::prelude::*;
use sha2::{Digest, Sha256};

/// What is copied, and when.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Files, directories and patterns, relative to the directory in which the run was started. Directories
    /// are copied with all their contents; in patterns `*` matches any characters of a name, `**` any
    /// directories, `?` one character and `[ab]` one of several.
    #[schemars(length(min = 1))]
    files: Vec<String>,
    /// Directory for the copies, inside the run directory. Default `files`.
    #[serde(default = "files")]
    directory: PathBuf,
    /// When copies are made; both are possible. Default: at the start.
    #[serde(default = "start")]
    #[schemars(length(min = 1))]
    at: Vec<At>,
    /// Whether a copy keeps the directories of its path, without `..`; otherwise all copies are in one
    /// directory, and two with the same name are an error. Default true.
    #[serde(default = "yes")]
    keep_directories: bool,
    /// How a name or pattern without any file is handled. Default `fail`.
    #[serde(default)]
    on_missing: OnMissing,
    /// Upper limit of a file's size, in megabytes of 1,000,000 bytes; a larger file is an error.
    /// Default 100.
    #[serde(default = "hundred")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    largest: f64,
}

fn files() -> PathBuf {
    PathBuf::from("files")
}

fn start() -> Vec<At> {
    vec![At::Start]
}

fn yes() -> bool {
    true
}

fn hundred() -> f64 {
    100.0
}

/// When copies are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum At {
    /// Before training.
    Start,
    /// At the end of the run, whatever its outcome. A file that has changed since the start is kept twice,
    /// the later copy with the first eight digits of its hash in its name.
    End,
}

/// How missing files are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum OnMissing {
    /// An error of this hook, handled according to the entry's `on_error`.
    #[default]
    Fail,
    /// A warning.
    Warn,
    /// They are ignored.
    Ignore,
}

/// See the [module](self).
pub(crate) struct SaveFile {
    config: Config,
    directory: PathBuf,
    /// The copies: names relative to the directory, separated by `/`, and hashes.
    copies: Vec<(String, String)>,
}

const SUMS: &str = "SHA256SUMS";

/// A file to copy and the name of its copy.
struct Wanted {
    file: PathBuf,
    name: PathBuf,
}

impl SaveFile {
    fn copy_all(&mut self, task: &TaskView<'_>) -> Result<()> {
        let mut all: Vec<Wanted> = Vec::new();
        for entry in &self.config.files {
            let found = self.found(entry)?;
            if found.is_empty() {
                let message = format!("`{entry}` leads to no file in `{}`", here());
                match self.config.on_missing {
                    OnMissing::Fail => bail!("{message}"),
                    OnMissing::Warn => task.warn(message),
                    OnMissing::Ignore => {}
                }
            }
            for wanted in found {
                let other = all.iter().find(|known| known.name == wanted.name);
                match other {
                    Some(other) if is_same(&other.file, &wanted.file) => {}
                    Some(other) => bail!(
                        "`{}` and `{}` would have one copy, `{}`: keep their directories",
                        other.file.display(),
                        wanted.file.display(),
                        wanted.name.display()
                    ),
                    None => all.push(wanted),
                }
            }
        }
        for wanted in &all {
            self.copy(wanted)?;
        }
        self.write_sums()
    }

    /// Returns the files that an entry matches, sorted by name.
    fn found(&self, entry: &str) -> Result<Vec<Wanted>> {
        let mut files = Vec::new();
        let place = Path::new(entry);
        if place.is_dir() {
            below(place, &mut files)?;
        } else if place.is_file() {
            files.push(place.to_owned());
        } else {
            for path in glob::glob(entry)? {
                let path = path?;
                if path.is_file() {
                    files.push(path);
                }
            }
        }
        files.sort();
        // A pattern may match the copies themselves.
        let own = fs::canonicalize(&self.directory).ok();
        let is_own = |file: &PathBuf| {
            let file = fs::canonicalize(file).ok();
            matches!((file, &own), (Some(file), Some(own)) if file.starts_with(own))
        };
        files.retain(|file| !is_own(file));
        let wanted = files.into_iter().map(|file| Wanted {
            name: self.name_of(&file),
            file,
        });
        Ok(wanted.collect())
    }

    fn name_of(&self, file: &Path) -> PathBuf {
        let plain = file.components().filter_map(|part| match part {
            Component::Normal(part) => Some(part),
            _ => None,
        });
        if self.config.keep_directories {
            plain.collect()
        } else {
            PathBuf::from(file.file_name().unwrap_or_default())
        }
    }

    fn copy(&mut self, Wanted { file, name }: &Wanted) -> Result<()> {
        let failed = || format!("can't copy `{}`", file.display());
        let size = fs::metadata(file).with_context(failed)?.len();
        if size as f64 > self.config.largest * 1e6 {
            bail!(
                "`{}` has {:.1} MB, `largest` is {}",
                file.display(),
                size as f64 / 1e6,
                self.config.largest
            );
        }
        let bytes = fs::read(file).with_context(failed)?;
        let hash = hash(&bytes);
        let mut name = slashed(name);
        let known = |name: &str| self.copies.iter().find(|(known, _)| known == name);
        match known(&name) {
            Some((_, earlier)) if *earlier == hash => return Ok(()),
            Some(_) => name = with_hash(&name, &hash),
            None => {}
        }
        if known(&name).is_some() {
            return Ok(());
        }
        write_atomically(path_inside(&self.directory, &name)?, &bytes)?;
        self.copies.push((name, hash));
        Ok(())
    }

    fn write_sums(&self) -> Result<()> {
        let mut text = String::new();
        for (name, hash) in &self.copies {
            writeln!(text, "{hash}  {name}")?;
        }
        write_atomically(path_inside(&self.directory, SUMS)?, text)
    }

    /// Reads the list of copies made by an earlier segment of the run.
    fn read_sums(&mut self) {
        let text = fs::read_to_string(self.directory.join(SUMS)).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once("  "));
        self.copies = lines
            .map(|(hash, name)| (name.to_owned(), hash.to_owned()))
            .collect();
    }
}

/// Returns whether two paths refer to the same file.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    one == other || matches!((real(one), real(other)), (Some(a), Some(b)) if a == b)
}

fn here() -> String {
    let directory = std::env::current_dir().unwrap_or_default();
    directory.display().to_string()
}

/// Collects all files inside a directory, recursively.
fn below(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = || format!("can't read `{}`", directory.display());
    for entry in fs::read_dir(directory).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        // A symbolic link to a directory may be a cycle.
        if path.is_dir() && !path.is_symlink() {
            below(&path, files)?;
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let mut text = String::with_capacity(2 * digest.len());
    for byte in digest {
        // Writing to a string never fails.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Joins the parts of a name with `/` on every system.
fn slashed(name: &Path) -> String {
    let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

/// Inserts the hash into a name: `a/b.json` becomes `a/b-0123abcd.json`.
fn with_hash(name: &str, hash: &str) -> String {
    let digits = hash.get(..8).unwrap_or(hash);
    let file = name.rfind('/').map_or(0, |slash| slash + 1);
    match name.rfind('.').filter(|dot| *dot > file) {
        Some(dot) => {
            let (stem, extension) = name.split_at(dot);
            format!("{stem}-{digits}{extension}")
        }
        None => format!("{name}-{digits}"),
    }
}

#[hook(
    name = "save-file",
    about = "Copies files into the run's directory, with their hashes.",
    priority = LOW
)]
impl Hook for SaveFile {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        for entry in &config.files {
            check_path(entry)
                .map_err(|reason| HookError::new(format_args!("`files`: {reason}")))?;
            glob::Pattern::new(entry).with_context(|| format!("`{entry}` is not a pattern"))?;
            // A pipe or a device has no contents of its own that could be copied.
            let place = Path::new(entry);
            if place.exists() && !place.is_file() && !place.is_dir() {
                bail!("`files`: `{entry}` is neither a file nor a directory");
            }
        }
        if !config.at.contains(&At::End) {
            setup.leave_out(Point::AfterRun);
        }
        Ok(SaveFile {
            directory: setup.path_below("directory", &config.directory)?,
            config,
            copies: Vec::new(),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        if task.resumed().is_some() {
            self.read_sums();
        }
        if self.config.at.contains(&At::Start) {
            return self.copy_all(task);
        }
        Ok(())
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, _outcome: &Outcome<'_>) -> Result<()> {
        if self.config.at.contains(&At::End) {
            return self.copy_all(task);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_changed_file_gets_its_hash_into_its_name() {
        for (name, expected) in [
            ("a/b.tar.gz", "a/b.tar-01234567.gz"),
            ("a.b/c", "a.b/c-01234567"),
            (".hidden", ".hidden-01234567"),
        ] {
            assert_eq!(with_hash(name, "0123456789"), expected);
        }
    }

    #[test]
    fn hashes_are_those_of_sha256sum() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash(b"abc"), expected);
    }

    #[test]
    fn files_are_copied_with_their_hashes_before_training() -> std::result::Result<(), Failed> {
        let config = json!({"files": ["Cargo.toml", "src/led*.rs"], "directory": "sources"});
        let seen = ScriptedRun::new().drive::<SaveFile>(config)?;
        let mut sums = String::new();
        for name in ["Cargo.toml", "src/ledger.rs"] {
            let text = fs::read_to_string(name).expect("a file of this crate");
            assert_eq!(seen.file(&format!("sources/{name}")).unwrap(), text);
            writeln!(sums, "{}  {name}", hash(text.as_bytes())).expect("a string takes it");
        }
        assert_eq!(seen.file("sources/SHA256SUMS").unwrap(), sums);
        Ok(())
    }

    #[test]
    fn files_that_are_missing_or_too_large_are_errors_unless_told_otherwise()
    -> std::result::Result<(), Failed> {
        let drive = |config| ScriptedRun::new().drive::<SaveFile>(config);
        let failed = drive(json!({"files": ["src/*.py"]})).unwrap_err();
        let missing = format!("`src/*.py` leads to no file in `{}`", here());
        assert_eq!(failed.message, missing);
        let seen = drive(json!({"files": ["src/*.py"], "on_missing": "warn"}))?;
        assert_eq!(seen.warnings(), [missing.as_str()]);
        let failed = drive(json!({"files": ["Cargo.toml"], "largest": 1e-6})).unwrap_err();
        assert!(
            failed.message.ends_with("MB, `largest` is 0.000001"),
            "{failed}"
        );
        let flat = json!({"files": ["Cargo.toml", "../csv/Cargo.toml"], "keep_directories": false});
        let failed = drive(flat).unwrap_err();
        assert!(
            failed.message.contains("would have one copy, `Cargo.toml`"),
            "{failed}"
        );
        Ok(())
    }
}
