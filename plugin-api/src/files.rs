//! Paths inside the run's directory, and atomic file writes.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use crate::ext::check_path;
use crate::{Context, HookError, Result, Setup, bail};

impl Setup<'_> {
    /// Resolves a path from the configuration to a path inside the run's directory.
    ///
    /// `option` is the configuration key that contains it, for messages.
    ///
    /// # Errors
    ///
    /// If the path is empty or absolute, leads out of that directory by `..` or by a symbolic link, begins
    /// with `~` or contains `$VAR` (which only a shell expands).
    #[track_caller]
    pub fn path_below(&self, option: &str, path: impl AsRef<Path>) -> Result<PathBuf> {
        let path = path.as_ref();
        check_path(&path.to_string_lossy())
            .map_err(|reason| HookError::new(format_args!("`{option}`: {reason}")))?;
        resolve(self.run_directory(), &format!("`{option}`"), path)
    }
}

/// Resolves a name inside a directory, which is the run's directory or below it.
///
/// Every name that a hook did not choose itself has to go through this function: from a configuration, a
/// saved state, or data. Symbolic links are checked at the time of the call: resolve a name shortly before
/// opening its file.
///
/// ```
/// use std::path::Path;
/// use sconce_plugin_api::path_inside;
///
/// let run = Path::new("/runs/one");
/// assert_eq!(path_inside(run, "tables/val.csv").unwrap(), run.join("tables/val.csv"));
/// for name in ["", ".", "/etc/passwd", "../two/val.csv", "a/../../b", "a\0b"] {
///     assert!(path_inside(run, name).is_err());
/// }
/// ```
///
/// # Errors
///
/// If the name is empty, absolute or contains `..` or control characters; if a symbolic link leads out of the
/// directory; if the path exists and is neither a file nor a directory.
#[track_caller]
pub fn path_inside(directory: &Path, name: impl AsRef<Path>) -> Result<PathBuf> {
    resolve(directory, "a file's name", name.as_ref())
}

#[track_caller]
fn resolve(directory: &Path, what: &str, name: &Path) -> Result<PathBuf> {
    let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    let is_text = !name.to_string_lossy().contains(char::is_control);
    if name.file_name().is_none() || !is_text || !name.components().all(is_below) {
        bail!(
            "{what} must be relative to the run's directory and stay below it: `{}`",
            name.to_string_lossy().escape_debug()
        );
    }
    let mut path = directory.to_owned();
    for part in name.components() {
        path.push(part);
        if !is_inside(directory, &path)? {
            // If this component doesn't exist, nothing below it does.
            break;
        }
    }
    Ok(directory.join(name))
}

/// Whether `path` exists; an error if it is a link out of `directory`, or neither file nor directory.
#[track_caller]
fn is_inside(directory: &Path, path: &Path) -> Result<bool> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(false);
    };
    if found.is_symlink() {
        let root = fs::canonicalize(directory)
            .with_context(|| format!("can't look at `{}`", directory.display()))?;
        let target = fs::canonicalize(path).ok();
        if !target.is_some_and(|target| target.starts_with(&root)) {
            let target = fs::read_link(path).unwrap_or_default();
            bail!(
                "`{}` is a symbolic link to `{}`, which is not inside the run's directory: remove the \
                 link, or choose another name",
                path.display(),
                target.display()
            );
        }
    } else if !found.is_file() && !found.is_dir() {
        bail!(
            "`{}` is neither a file nor a directory: remove it, or choose another name",
            path.display()
        );
    }
    Ok(true)
}

/// Writes a file atomically: completely or not at all, also if the power fails; readers meanwhile see the old content.
///
/// Creates the directory if it is missing. For files that are appended to, see [`LogFile`](crate::LogFile).
///
/// # Errors
///
/// If it cannot be written, e.g. on a full disk; the old file is then unchanged.
#[track_caller]
pub fn write_atomically(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
    let path = path.as_ref();
    let failing = || format!("can't write `{}`", path.display());
    if let Some(directory) = path.parent() {
        make_directories(directory).with_context(failing)?;
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(".part");
    let draft = PathBuf::from(draft);
    let written = write_new(&draft, content.as_ref())
        .and_then(|()| fs::rename(&draft, path))
        .and_then(|()| sync_directory(path));
    if written.is_err() {
        // Best effort: the write error is reported, a failure to remove the draft adds nothing.
        drop(fs::remove_file(&draft));
    }
    written.with_context(failing)
}

/// Creates a new file, never following a link; a file left there by a killed process is removed first.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(content)?;
    // A name that is on disk before its bytes would be that of an empty file.
    file.sync_all()
}

/// Creates a directory, and those above it that are missing; the names of new ones are on disk when it returns.
pub(crate) fn make_directories(directory: &Path) -> io::Result<()> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing: Vec<&Path> = directory.ancestors().take_while(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    missing.into_iter().try_for_each(sync_directory)
}

/// Syncs the directory of a file that has just got its name.
#[cfg(unix)]
pub(crate) fn sync_directory(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(directory) if directory != Path::new("") => fs::File::open(directory)?.sync_all(),
        _ => fs::File::open(".")?.sync_all(),
    }
}

#[cfg(not(unix))]
pub(crate) fn sync_directory(_file: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_in_the_runs_directory() {
        let run = Path::new("/run");
        let found = path_inside(run, "logs/./a.json").expect("a path");
        assert_eq!(found, Path::new("/run/logs/./a.json"));
        for path in [
            "",
            ".",
            "..",
            "/",
            "/tmp/a",
            "../a",
            "a/../../b",
            "a/..",
            "a\0b",
            "a\nb",
            "\u{1b}[2J",
        ] {
            let error = path_inside(run, path).expect_err(path);
            let message = error.message();
            assert!(message.contains("must be relative"), "{error}");
            assert!(!message.contains(char::is_control), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_out_of_the_directory_is_never_followed() {
        use std::os::unix::fs::symlink;
        let place = std::env::temp_dir().join(format!("sconce-links-{}", std::process::id()));
        drop(fs::remove_dir_all(&place));
        let (run, other) = (place.join("run"), place.join("other"));
        fs::create_dir_all(run.join("kept")).expect("made");
        fs::create_dir_all(&other).expect("made");
        fs::write(other.join("file"), "precious").expect("written");
        symlink(&other, run.join("out")).expect("a link");
        symlink("../other/file", run.join("file")).expect("a link");
        symlink("../other/nothing", run.join("dangling")).expect("a link");
        symlink("kept", run.join("in")).expect("a link");
        for name in ["out", "out/file", "out/new", "file", "dangling", "./out"] {
            path_inside(&run, name).expect_err(name);
        }
        for name in ["in", "in/new", "kept/new", "new/deep/er"] {
            path_inside(&run, name).expect(name);
        }
        // The target of a link under the draft's name is unchanged too.
        symlink("../other/file", run.join("a.json.part")).expect("a link");
        write_atomically(run.join("a.json"), "new").expect("written");
        assert_eq!(fs::read(other.join("file")).expect("read"), b"precious");
        fs::remove_dir_all(place).expect("removed");
    }

    #[test]
    fn a_file_is_replaced_whole_and_leaves_no_draft() {
        let name = format!("sconce-write-whole-{}", std::process::id());
        let place = std::env::temp_dir().join(name);
        let path = place.join("a/b.json");
        write_atomically(&path, "long, long").expect("written");
        write_atomically(&path, "short").expect("written");
        assert_eq!(fs::read(&path).expect("read"), b"short");
        let error = write_atomically(place.join("a"), "").expect_err("a directory is there");
        assert!(error.message().starts_with("can't write `"), "{error}");
        let count = |directory: &Path| fs::read_dir(directory).expect("listed").count();
        assert_eq!((count(&place), count(&place.join("a"))), (1, 1));
        fs::remove_dir_all(place).expect("removed");
    }
}
