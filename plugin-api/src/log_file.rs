//! A file that a hook writes line by line, and that a resumed run goes on with.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Context, Result};

/// A file that a hook adds to, such as a table or a log, whose length is part of the hook's state: a
/// resumed run goes on with it without a line twice, torn or missing.
///
/// It is created at the first writing (an older file of that name is emptied then), so that a hook
/// makes one in [`Hook::new`](crate::Hook::new) and loses nothing of a run that is about to be
/// resumed. Each [`write`](LogFile::write) goes through to the system at once: write whole lines.
///
/// ```
/// use sconce_plugin_api::prelude::*;
///
/// struct Losses {
///     log: LogFile,
/// }
///
/// #[hook(name = "losses", about = "Writes each batch's loss to losses.txt.")]
/// impl Hook for Losses {
///     fn new(_config: NoConfig, setup: &Setup<'_>) -> Result<Self> {
///         Ok(Losses { log: LogFile::new(setup.run_directory().join("losses.txt")) })
///     }
///
///     fn after_iter(&mut self, task: &mut TaskView<'_>) -> Result<()> {
///         match task.loss() {
///             Some(loss) => self.log.write(format!("{loss}\n")),
///             None => Ok(()),
///         }
///     }
///
///     fn save_state(&mut self) -> Result<Vec<u8>> {
///         state::to_bytes(&self.log.save()?)
///     }
///
///     fn load_state(&mut self, bytes: &[u8]) -> Result<()> {
///         self.log.restore(&state::from_bytes(bytes)?)?;
///         Ok(())
///     }
/// }
/// # export_plugin!(Losses);
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    /// Open at its end, from the first writing on.
    file: Option<File>,
    /// What is written, in bytes.
    bytes: u64,
}

/// What a checkpoint keeps of a [`LogFile`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFileState {
    /// The file's length; nothing where it had not been begun.
    bytes: Option<u64>,
}

/// How [`LogFile::restore`] found the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Restored {
    /// As it was saved; what had been written after that is cut off.
    Whole,
    /// Gone, or shorter than it was: it begins anew with the next writing.
    Lost,
}

impl LogFile {
    /// A file that is created, or emptied, at the first writing; its directory too is made then.
    pub fn new(path: impl Into<PathBuf>) -> LogFile {
        LogFile {
            path: path.into(),
            file: None,
            bytes: 0,
        }
    }

    /// A file of an earlier run that is added to, or a new one.
    ///
    /// # Errors
    ///
    /// Where it can't be opened.
    #[track_caller]
    pub fn append(path: impl Into<PathBuf>) -> Result<LogFile> {
        let mut log = LogFile::new(path);
        log.open(u64::MAX)?;
        Ok(log)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether something has been written, in this run or the one that it goes on from.
    pub fn is_begun(&self) -> bool {
        self.file.is_some()
    }

    /// Adds to the file, through to the system: what is written survives the process.
    ///
    /// # Errors
    ///
    /// Where it can't be created or written, for lack of room say. What of it is written is cut off.
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
            // Half a line helps nobody; that it can't be cut off either is no other news.
            drop(cut(file, self.bytes));
            return Err(error).with_context(|| format!("can't write to `{}`", self.path.display()));
        }
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// What a checkpoint keeps. Brings the file to the disk, so that a checkpoint never knows of
    /// lines that a power failure has lost.
    ///
    /// # Errors
    ///
    /// Where the system can't.
    #[track_caller]
    pub fn save(&mut self) -> Result<LogFileState> {
        if let Some(file) = &self.file {
            file.sync_data()
                .with_context(|| format!("can't write to `{}`", self.path.display()))?;
        }
        Ok(LogFileState {
            bytes: self.file.is_some().then_some(self.bytes),
        })
    }

    /// Goes back to what a checkpoint keeps: cuts off what was written after it.
    ///
    /// # Errors
    ///
    /// Where the file is there and can't be opened or cut.
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

    /// Opens the file, made where it is missing, and cuts it to so many bytes.
    #[track_caller]
    fn open(&mut self, bytes: u64) -> Result<()> {
        let path = self.path.display();
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)
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
        Ok(())
    }
}

/// Cuts a file to so many bytes where it has more, and stands at its end; its length.
fn cut(file: &mut File, bytes: u64) -> std::io::Result<u64> {
    if file.metadata()?.len() > bytes {
        file.set_len(bytes)?;
    }
    file.seek(SeekFrom::End(0))
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

        // Back to before the first line.
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
