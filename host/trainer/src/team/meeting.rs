//! What ranks tell the `sconce launch` that started them, by files in the directory where they meet.
//!
//! A process may end without a word, or with the exit code of something else. Whoever waits for it must know whether the run
//! was over, where its checkpoints are, and whether the others have waited for it in vain.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::checkpoint::{self, FAILED, Store};
use crate::launcher;
use sconce_base::files;

/// File with the [`RunNote`].
const RUN: &str = "run";

/// File that is there once a rank has lost another.
const LOST: &str = "lost";

/// File that is there once a rank has waited for another in vain.
const LATE: &str = "late";

/// File that is there once a hook's process has ended and the run with it.
const ACCIDENT: &str = "accident";

/// Where a run is, as its first rank has noted when it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunNote {
    /// The output directory.
    pub directory: PathBuf,
    /// The newest checkpoint by then, and when it was saved.
    newest: Option<(String, SystemTime)>,
    /// Whether there were checkpoints by then, of whatever kind.
    had_checkpoints: bool,
}

impl RunNote {
    /// What is to be noted of a run in this directory that begins now.
    pub fn of(directory: PathBuf) -> RunNote {
        RunNote {
            newest: newest(&directory),
            had_checkpoints: !Store::of(&directory).tags().is_empty(),
            directory,
        }
    }

    /// The newest checkpoint, if it was saved since.
    pub fn new_checkpoint(&self) -> Option<String> {
        let now = newest(&self.directory)?;
        (Some(&now) != self.newest.as_ref()).then_some(now.0)
    }

    /// The newest checkpoint when the run began.
    pub fn first_checkpoint(&self) -> Option<&str> {
        self.newest.as_ref().map(|(tag, _)| tag.as_str())
    }

    /// Whether the run began in a directory without checkpoints, so that all that are there by now are its own.
    pub fn is_from_the_beginning(&self) -> bool {
        !self.had_checkpoints
    }

    /// Whether the run has left without a record of its end.
    pub fn is_without_an_end(&self) -> bool {
        self.directory.is_dir() && !self.directory.join("run.json").exists()
    }
}

/// The newest checkpoint from which a run goes on with the same bits: that of a failure may be of the middle of an iteration,
/// and has an older state of a hook that has crashed.
fn newest(directory: &Path) -> Option<(String, SystemTime)> {
    let store = Store::of(directory);
    let latest = store.latest().filter(|tag| tag != FAILED);
    let tag = latest
        .filter(|tag| store.path_of(tag).is_dir())
        .or_else(|| {
            let mut others = store.newest_first().into_iter();
            others.find(|tag| tag != FAILED && checkpoint::read(&store.path_of(tag)).is_ok())
        })?;
    let saved = std::fs::metadata(store.path_of(&tag))
        .ok()?
        .modified()
        .ok()?;
    Some((tag, saved))
}

/// The directory in which this process was told to meet others.
fn place() -> Option<PathBuf> {
    std::env::var_os(launcher::DIRECTORY).map(PathBuf::from)
}

/// Notes where the run is that this process, its first rank, begins.
///
/// # Errors
///
/// If the note can't be written: without it the launcher would start the run again as it began, over what it has saved.
pub fn note_run(directory: &Path) -> io::Result<()> {
    let Some(place) = place() else {
        return Ok(());
    };
    let note = RunNote::of(std::path::absolute(directory)?);
    files::write_atomically(&place.join(RUN), &serde_json::to_vec(&note)?)
}

/// Notes that this rank has lost another, or has waited for it in vain.
pub(super) fn note_loss(is_late: bool) {
    if let Some(place) = place() {
        let name = if is_late { LATE } else { LOST };
        drop(std::fs::write(place.join(name), ""));
    }
}

/// Notes that the run ends because a hook's process has ended: it could come further if it were started again.
pub fn note_accident() {
    if let Some(place) = place() {
        drop(std::fs::write(place.join(ACCIDENT), ""));
    }
}

/// What the ranks have told, in the directory where they meet.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a>(pub &'a Path);

impl Told<'_> {
    /// The run, once it has begun.
    pub fn run(self) -> Option<RunNote> {
        let text = std::fs::read(self.0.join(RUN)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Whether a rank has lost another.
    pub fn has_lost(self) -> bool {
        self.0.join(LOST).exists()
    }

    /// Whether the run has ended because a hook's process had.
    pub fn is_accident(self) -> bool {
        self.0.join(ACCIDENT).exists()
    }

    /// Whether a rank has waited for another in vain.
    pub fn is_late(self) -> bool {
        self.0.join(LATE).exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::LATEST;

    #[test]
    fn a_checkpoint_is_new_if_it_was_saved_since_the_note() {
        let place = tempfile::tempdir().expect("a directory");
        let checkpoints = place.path().join("checkpoints");
        let save = |tag: &str| {
            std::fs::create_dir_all(checkpoints.join(tag)).expect("made");
            std::fs::write(checkpoints.join(LATEST), tag).expect("written");
        };
        let note = RunNote::of(place.path().to_owned());
        assert_eq!(note.new_checkpoint(), None);
        assert!(note.is_from_the_beginning());
        save("a");
        assert_eq!(note.new_checkpoint().as_deref(), Some("a"));
        let note = RunNote::of(place.path().to_owned());
        assert_eq!(note.new_checkpoint(), None);
        save(FAILED);
        assert_eq!(note.new_checkpoint(), None);
        assert!(note.is_without_an_end());
        std::fs::write(place.path().join("run.json"), "{}").expect("written");
        assert!(!note.is_without_an_end());
    }
}
