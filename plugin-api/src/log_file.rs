//! An append-only file that a resumed run continues.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::{make_directories, sync_directory};
use crate::state::StateField;
use crate::{Context, Result};

/// An append-only file, such as a table or a log, whose length is part of the hook's state.
///
/// A resumed run continues it with no line duplicated, torn or missing.
///
/// The file is created at the first write, truncating an older file of that name: a hook may therefore
/// construct it in [`Hook::new`](crate::Hook::new) without losing data of a run that is about to be resumed.
/// Each [`write`](LogFile::write) is passed to the operating system immediately: write complete lines.
///
/// ```
/// use sconce_plugin_api::prelude::*;
///
/// struct Losses {
///     log: LogFile,
/// }
///
/// #[hook(name = "losses", about = "Writes each batch's loss to losses.txt.", state = log)]
/// impl Hook for Losses {
///     fn new(_config: NoConfig, setup: &Setup<'_>) -> Result<Self> {
///         Ok(Losses { log: LogFile::new(setup.run_directory().join("losses.txt")) })
///     }
///
///     fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
///         match task.loss() {
///             Some(loss) => self.log.write(format!("{loss}\n")),
///             None => Ok(()),
///         }
///     }
/// }
/// # export_plugin!(Losses);
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    /// Positioned at its end; open from the first write on.
    file: Option<File>,
    /// Length of the file in bytes.
    bytes: u64,
    /// Whether its name is known to be on disk, too.
    has_name: bool,
}

/// State of a [`LogFile`], to be stored in a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFileState {
    /// Length of the file; `None` if nothing had been written.
    bytes: Option<u64>,
}

/// Result of [`LogFile::restore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Restored {
    /// The file is as it was saved; anything written later was cut off.
    Whole,
    /// The file is missing or shorter than it was; the next write starts a new one.
    Lost,
}

impl LogFile {
    /// A file that is created, or truncated, at the first write, along with its directory.
    pub fn new(path: impl Into<PathBuf>) -> LogFile {
        LogFile {
            path: path.into(),
            file: None,
            bytes: 0,
            has_name: false,
        }
    }

    /// Opens a file for appending, creating it if it doesn't exist.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    #[track_caller]
    pub fn append(path: impl Into<PathBuf>) -> Result<LogFile> {
        let mut log = LogFile::new(path);
        log.open(u64::MAX)?;
        Ok(log)
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether anything has been written, in this run or in the one that it resumes.
    pub fn is_begun(&self) -> bool {
        self.file.is_some()
    }

    /// Appends to the file, unbuffered: the data survives the end of the process.
    ///
    /// # Errors
    ///
    /// If the file cannot be created or written, e.g. on a full disk. A partial write is cut off.
    #[track_caller]
    pub fn write(&mut self, text: impl AsRef<[u8]>) -> Result<()> {
        let text = text.as_ref();
        if self.file.is_none() {
            self.open(0)?;
        }
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        if let Err(error) = file.write_all(text) {
            // Best effort: the write error is reported, a failure to cut off the partial line adds nothing.
            drop(cut(file, self.bytes));
            return Err(error).with_context(|| format!("can't write to `{}`", self.path.display()));
        }
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// Syncs the file and, the first time, its name to disk, and returns its state, to be stored in a checkpoint.
    ///
    /// Thanks to the sync, a checkpoint never refers to lines that a power failure has lost.
    ///
    /// # Errors
    ///
    /// If the sync fails.
    #[track_caller]
    pub fn save(&mut self) -> Result<LogFileState> {
        if let Some(file) = &self.file {
            let mut synced = file.sync_data();
            if synced.is_ok() && !self.has_name {
                synced = match sync_directory(&self.path) {
                    // A sandbox may let a hook write the file, and not read the directory that it is in.
                    Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
                    synced => synced,
                };
                self.has_name = synced.is_ok();
            }
            synced.with_context(|| format!("can't write to `{}`", self.path.display()))?;
        }
        Ok(LogFileState {
            bytes: self.file.is_some().then_some(self.bytes),
        })
    }

    /// Restores the state from a checkpoint, cutting off anything written after it.
    ///
    /// # Errors
    ///
    /// If the file exists and cannot be opened or truncated.
    #[track_caller]
    pub fn restore(&mut self, state: &LogFileState) -> Result<Restored> {
        self.file = None;
        self.bytes = 0;
        let Some(bytes) = state.bytes else {
            return Ok(Restored::Whole);
        };
        let found = fs::metadata(&self.path).map_or(0, |file| file.len());
        if found < bytes {
            return Ok(Restored::Lost);
        }
        self.open(bytes)?;
        Ok(Restored::Whole)
    }

    /// Opens the file, creating it if it is missing, and truncates it to at most `bytes`.
    #[track_caller]
    fn open(&mut self, bytes: u64) -> Result<()> {
        let path = self.path.display();
        if let Some(directory) = self.path.parent() {
            make_directories(directory)
                .with_context(|| format!("can't make the directory of `{path}`"))?;
        }
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .truncate(false)
            .write(true)
            .open(&self.path);
        let mut file = file.with_context(|| format!("can't open `{path}`"))?;
        let end = cut(&mut file, bytes);
        self.bytes = end.with_context(|| format!("can't shorten `{path}`"))?;
        self.file = Some(file);
        // It may have been created now, or by a process that was killed.
        self.has_name = false;
        Ok(())
    }
}

/// Truncates a file to at most `bytes` and seeks to its end; returns its length.
fn cut(file: &mut File, bytes: u64) -> std::io::Result<u64> {
    if file.metadata()?.len() > bytes {
        file.set_len(bytes)?;
    }
    file.seek(SeekFrom::End(0))
}

impl StateField for LogFile {
    type Saved = LogFileState;

    fn save(&mut self) -> Result<impl Serialize> {
        LogFile::save(self)
    }

    fn restore(&mut self, saved: LogFileState) -> Result<()> {
        LogFile::restore(self, &saved).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        let name = format!("sconce-log-file-{}-{name}", std::process::id());
        std::env::temp_dir().join(name).join("a/log.txt")
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_resumed_log_has_every_line_once() {
        let path = path("resumed");
        let mut log = LogFile::new(&path);
        let nothing = log.save().expect("a state");
        log.write("one\n").expect("written");
        log.write("two\n").expect("written");
        let state = log.save().expect("a state");
        log.write("three\n").expect("written");
        log.write("fo").expect("written, torn");
        drop(log);
        let mut log = LogFile::new(&path);
        assert!(
            !log.is_begun() && text(&path).ends_with("fo"),
            "nothing is lost yet"
        );
        assert_eq!(log.restore(&state).expect("restored"), Restored::Whole);
        log.write("three\n").expect("written");
        assert_eq!(text(&path), "one\ntwo\nthree\n");

        // Roll back to before the first line.
        assert_eq!(log.restore(&nothing).expect("restored"), Restored::Whole);
        log.write("1\n").expect("written");
        assert_eq!(text(&path), "1\n");
        assert_eq!(log.restore(&state).expect("restored"), Restored::Lost);
        log.write("new\n").expect("written");
        assert_eq!(text(&path), "new\n");
        let mut log = LogFile::append(&path).expect("opened");
        log.write("more\n").expect("written");
        assert_eq!(text(log.path()), "new\nmore\n");
        let json = serde_json::to_string(&state).expect("JSON");
        assert_eq!(
            serde_json::from_str::<LogFileState>(&json).expect("a state"),
            state
        );
        fs::remove_dir_all(path.ancestors().nth(2).expect("a directory")).expect("removed");
    }

    #[test]
    fn what_cant_be_written_says_where() {
        let file = path("file");
        let directory = file.parent().expect("a directory").to_owned();
        fs::create_dir_all(directory.parent().expect("a directory")).expect("made");
        fs::write(&directory, "a file").expect("written");
        let error = LogFile::new(&file).write("x").expect_err("no directory");
        assert!(error.message().contains("log.txt"), "{error}");
        fs::remove_dir_all(directory.parent().expect("a directory")).expect("removed");
    }
}
