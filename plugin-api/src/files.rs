//! Where hooks' files go, and how one is written whole.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::{Context, Result, Setup, bail};

impl Setup<'_> {
    /// The path of a file or directory below the run's directory, which the configuration's key
    /// `option` names.
    ///
    /// # Errors
    ///
    /// Where it is empty, absolute, or leads out of that directory.
    #[track_caller]
    pub fn path_below(&self, option: &str, path: impl AsRef<Path>) -> Result<PathBuf> {
        below(self.run_directory(), option, path.as_ref())
    }
}

#[track_caller]
fn below(directory: &Path, option: &str, path: &Path) -> Result<PathBuf> {
    let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.file_name().is_none() || !path.components().all(is_below) {
        bail!(
            "`{option}` must be relative to the run's directory and stay below it: `{}`",
            path.display()
        );
    }
    Ok(directory.join(path))
}

/// Writes a file whole or not at all: whoever reads it meanwhile finds the old one. Its directory is
/// made where it is missing. For a file that grows there is [`LogFile`](crate::LogFile).
///
/// # Errors
///
/// Where it can't be written, for lack of room say; the old one is still there then.
#[track_caller]
pub fn write_whole(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<()> {
    let path = path.as_ref();
    let failing = || format!("can't write `{}`", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).with_context(failing)?;
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(".part");
    let draft = PathBuf::from(draft);
    let written = fs::write(&draft, content).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // Half a file helps nobody; that it can't be removed either is no other news.
        drop(fs::remove_file(&draft));
    }
    written.with_context(failing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_in_the_runs_directory() {
        let run = Path::new("/run");
        let found = below(run, "file", Path::new("logs/./a.json")).expect("a path");
        assert_eq!(found, Path::new("/run/logs/./a.json"));
        for path in ["", ".", "..", "/tmp/a", "../a", "a/../../b"] {
            let error = below(run, "file", Path::new(path)).expect_err(path);
            assert!(
                error.message().contains("`file` must be relative"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_is_replaced_whole_and_leaves_no_draft() {
        let name = format!("sconce-write-whole-{}", std::process::id());
        let place = std::env::temp_dir().join(name);
        let path = place.join("a/b.json");
        write_whole(&path, "long, long").expect("written");
        write_whole(&path, "short").expect("written");
        assert_eq!(fs::read(&path).expect("read"), b"short");
        let error = write_whole(place.join("a"), "").expect_err("a directory is there");
        assert!(error.message().starts_with("can't write `"), "{error}");
        let count = |directory: &Path| fs::read_dir(directory).expect("listed").count();
        assert_eq!((count(&place), count(&place.join("a"))), (1, 1));
        fs::remove_dir_all(place).expect("removed");
    }
}
