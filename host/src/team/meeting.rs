//! What ranks tell the `sconce launch` that started them, by files in the directory where they meet.
//!
//! A process may end without a word, or with the exit code of something else. Whoever waits for it must know whether the run
//! was over, where its checkpoints are, and whether the others have waited for it in vain.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::launcher;
use crate::checkpoint::{LATEST, Store};
use crate::files;

/// File with the [`RunNote`].
const RUN: &str = "run";

/// File that is there once a rank has lost another.
const LOST: &str = "lost";

/// File that is there once a rank has waited for another in vain.
const LATE: &str = "late";

/// Where a run is, as its first rank has noted when it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunNote {
    /// The output directory.
    pub(crate) directory: PathBuf,
    /// When the directory's link to its latest checkpoint was made.
    latest: Option<SystemTime>,
}

impl RunNote {
    fn of(directory: PathBuf) -> RunNote {
        RunNote {
            latest: latest(&directory),
            directory,
        }
    }

    /// Whether a checkpoint was saved since.
    pub(crate) fn has_new_checkpoint(&self) -> bool {
        match latest(&self.directory) {
            // A process may be killed after it has written the first checkpoint, and before the link to it.
            None => !Store::of(&self.directory).tags().is_empty(),
            now => now != self.latest,
        }
    }

    /// Whether the run has left without a record of its end.
    pub(crate) fn is_without_an_end(&self) -> bool {
        self.directory.is_dir() && !self.directory.join("run.json").exists()
    }
}

fn latest(directory: &Path) -> Option<SystemTime> {
    let link = Store::of(directory).directory().join(LATEST);
    std::fs::symlink_metadata(link).ok()?.modified().ok()
}

/// The directory in which this process was told to meet others.
fn place() -> Option<PathBuf> {
    std::env::var_os(launcher::DIRECTORY).map(PathBuf::from)
}

/// Notes where the run is that this process, its first rank, begins. Without the note the launcher can't go on with it.
pub(crate) fn note_run(directory: &Path) {
    let Some(place) = place() else {
        return;
    };
    let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let text = serde_json::to_vec(&RunNote::of(directory)).unwrap_or_default();
    drop(files::write_atomically(&place.join(RUN), &text));
}

/// Notes that this rank has lost another, or has waited for it in vain.
pub(super) fn note_loss(is_late: bool) {
    if let Some(place) = place() {
        let name = if is_late { LATE } else { LOST };
        drop(std::fs::write(place.join(name), ""));
    }
}

/// What the ranks have told, in the directory where they meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told<'a>(pub(crate) &'a Path);

impl Told<'_> {
    /// The run, once it has begun.
    pub(crate) fn run(self) -> Option<RunNote> {
        let text = std::fs::read(self.0.join(RUN)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Whether a rank has lost another.
    pub(crate) fn has_lost(self) -> bool {
        self.0.join(LOST).exists()
    }

    /// Whether a rank has waited for another in vain.
    pub(crate) fn is_late(self) -> bool {
        self.0.join(LATE).exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_new_if_it_was_saved_since_the_note() {
        let place = tempfile::tempdir().expect("a directory");
        let link = |tag: &str| {
            let checkpoints = place.path().join("checkpoints");
            std::fs::create_dir_all(&checkpoints).expect("made");
            std::fs::write(checkpoints.join(LATEST), tag).expect("written");
        };
        let note = RunNote::of(place.path().to_owned());
        assert!(!note.has_new_checkpoint());
        link("a");
        assert!(note.has_new_checkpoint());
        let note = RunNote::of(place.path().to_owned());
        assert!(!note.has_new_checkpoint());
        assert!(note.is_without_an_end());
        std::fs::write(place.path().join("run.json"), "{}").expect("written");
        assert!(!note.is_without_an_end());
    }
}
