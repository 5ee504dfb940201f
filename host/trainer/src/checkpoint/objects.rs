//! Contents of checkpoints that hooks' states refer to, found by their hash.
//!
//! A tag may get new contents, or be deleted, while a checkpoint on disk still has a state that refers to the earlier
//! ones. These move to `.objects/HASH`, where HASH is the SHA-256 of their `index.json`, until no checkpoint with a tag
//! refers to them any more. Only checkpoints with a tag count: a run resumes from no others.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use sconce_plugin_api::CheckpointRef;
use serde::Deserialize;

use super::directory::hash_of;
use super::directory::{self, link_all};
use super::index::Index;
use super::layout::{HOOKS, parsed};
use super::{CheckpointError, Store};
use sconce_base::held_directory::aside;

/// Directory of contents that no longer have a tag; not allowed as a tag itself.
const OBJECTS: &str = ".objects";

/// What `hooks.json` says of a hook's references.
#[derive(Deserialize)]
struct Refers {
    #[serde(default)]
    refers: Vec<CheckpointRef>,
    #[serde(default)]
    absent: bool,
}

/// The references in the states of a checkpoint's hooks.
///
/// # Errors
///
/// If its list of hooks can't be read.
fn references(directory: &Path) -> Result<Vec<CheckpointRef>, CheckpointError> {
    let index = Index::read(directory)?;
    if !index.has(HOOKS) {
        return Ok(Vec::new());
    }
    let hooks: Vec<Refers> = parsed(&index.file(directory, HOOKS)?)
        .map_err(|reason| directory::damaged(directory, HOOKS, &reason))?;
    let hooks = hooks.into_iter().filter(|hook| !hook.absent);
    Ok(hooks.flat_map(|hook| hook.refers).collect())
}

impl Store {
    /// The store that a checkpoint's directory is in.
    pub fn around(checkpoint: &Path) -> Option<Store> {
        Some(Store::at(checkpoint.parent()?.to_owned()))
    }

    /// Tag of the newest checkpoint that a run can resume from and whose states refer to nothing that is gone.
    pub fn newest_consistent(&self) -> Option<String> {
        self.newest_first().into_iter().find(|tag| {
            let directory = self.path_of(tag);
            let is_complete = directory::complete(&directory).is_ok();
            let references = references(&directory).unwrap_or_default();
            is_complete
                && references
                    .iter()
                    .all(|reference| self.find(reference).is_some())
        })
    }

    /// Directory with the contents that a reference means: under its tag or any other, without one, or about to lose
    /// it when a process was killed.
    pub fn find(&self, reference: &CheckpointRef) -> Option<PathBuf> {
        let has_them = |directory: &PathBuf| {
            hash_of(directory).as_deref() == Some(reference.sha256())
                && Index::read(directory).is_ok_and(|index| index.is_there(directory))
        };
        let entries = std::fs::read_dir(self.directory()).into_iter();
        let others = entries.flatten().flatten().map(|entry| entry.path());
        [
            self.path_of(reference.tag()),
            self.object(reference.sha256()),
        ]
        .into_iter()
        .chain(others)
        .find(has_them)
    }

    /// Gives a tag the contents that a reference means again; returns whether they exist.
    ///
    /// # Errors
    ///
    /// If the tag can't be changed.
    pub fn restore(&self, reference: &CheckpointRef) -> io::Result<bool> {
        let Some(found) = self.find(reference) else {
            return Ok(false);
        };
        let place = self.path_of(reference.tag());
        if found != place {
            self.replace(&found, &place)?;
        }
        Ok(true)
    }

    /// Brings a checkpoint of another run and everything that hooks' states refer to, with hard links where the file
    /// system has them. What the checkpoint itself refers to comes first, and `latest` leads to it last.
    ///
    /// # Errors
    ///
    /// If something can't be copied, or the checkpoint can't be read.
    pub fn bring(&self, checkpoint: &Path, tag: &str) -> Result<(), CheckpointError> {
        let failed = |source| CheckpointError::Write {
            source,
            needed: 0,
            free: None,
        };
        let Some(other) = Store::around(checkpoint) else {
            return Ok(());
        };
        self.make()
            .and_then(|()| self.bring_rows(&other))
            .map_err(failed)?;
        let own = references(checkpoint)?;
        let mut seen = HashSet::new();
        let mut next: Vec<(CheckpointRef, bool)> =
            own.into_iter().map(|reference| (reference, true)).collect();
        while let Some((reference, has_tag)) = next.pop() {
            let key = (reference.tag().to_owned(), reference.sha256().to_owned());
            if !seen.insert(key) {
                continue;
            }
            let Some(found) = other.find(&reference) else {
                // Of the checkpoint itself, the user has allowed it; without others it can still be used.
                continue;
            };
            // The tag belongs to what the checkpoint refers to; what that refers to is found by its hash.
            let place = if has_tag {
                self.path_of(reference.tag())
            } else {
                self.make_objects().map_err(failed)?;
                self.object(reference.sha256())
            };
            if hash_of(&place).as_deref() != Some(reference.sha256()) {
                self.replace(&found, &place).map_err(failed)?;
            }
            let further = references(&found).unwrap_or_default();
            next.extend(further.into_iter().map(|reference| (reference, false)));
        }
        self.replace(checkpoint, &self.path_of(tag))
            .map_err(failed)?;
        self.lead_to(tag).map_err(failed)
    }

    /// Puts a copy of a checkpoint, with hard links, in the place of what is at `place`. After an error nothing has
    /// changed.
    pub(super) fn replace(&self, from: &Path, place: &Path) -> io::Result<()> {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        self.clear_aside(&name)?;
        let beside = aside(&self.path_of(&name), "new");
        let replaced = link_all(self.run_directory(), from, &beside)
            .and_then(|()| self.run_directory().put(&beside, place));
        match replaced {
            Ok(earlier) => {
                self.discard_quietly(earlier.as_deref());
                Ok(())
            }
            Err(error) => {
                drop(self.run_directory().remove(&beside));
                Err(error)
            }
        }
    }

    /// Makes room for a new directory beside a tag's. An earlier one may be what could not be made an object.
    pub(super) fn clear_aside(&self, tag: &str) -> io::Result<()> {
        let beside = aside(&self.path_of(tag), "new");
        if self.run_directory().exists(&beside) {
            self.discard(&beside)
        } else {
            Ok(())
        }
    }

    /// As [`discard`](Store::discard), where the new contents are in place: what is left over is removed by the next
    /// process that takes over the run.
    pub(super) fn discard_quietly(&self, directory: Option<&Path>) {
        if let Some(directory) = directory {
            drop(self.discard(directory));
        }
    }

    /// Removes a directory that no longer has a tag, or keeps its contents as an object if a state refers to them. Also
    /// removes the objects that no state refers to any more.
    pub(super) fn discard(&self, directory: &Path) -> io::Result<()> {
        let (present, referred) = self.hashes();
        // Read by path: what another directory in the place of this one refers to decides nothing.
        if let Some(reason) = self.lost() {
            return Err(io::Error::other(reason));
        }
        let run = self.run_directory();
        for object in self.objects() {
            if !referred.contains(&object) {
                // Gone from `.objects` at once: what is found there is always complete.
                let doomed = aside(&self.path_of(&object), "new");
                run.rename(&self.object(&object), &doomed)?;
                run.remove(&doomed)?;
            }
        }
        // Only an empty directory can be removed.
        drop(run.remove_empty(&self.directory().join(OBJECTS)));
        let hash =
            hash_of(directory).filter(|hash| referred.contains(hash) && !present.contains(hash));
        let Some(hash) = hash.filter(|hash| !self.object(hash).exists()) else {
            return run.remove(directory);
        };
        self.make_objects()?;
        run.rename(directory, &self.object(&hash))?;
        // Before the directory that it has left, which the caller syncs.
        run.sync(&self.directory().join(OBJECTS))
    }

    /// The hashes of all tags' contents, and those that their states refer to.
    fn hashes(&self) -> (HashSet<String>, HashSet<String>) {
        let (mut present, mut referred) = (HashSet::new(), HashSet::new());
        for tag in self.tags() {
            let directory = self.path_of(&tag);
            present.extend(hash_of(&directory));
            // A run can't resume from a checkpoint whose hooks can't be read.
            let found = references(&directory).unwrap_or_default();
            referred.extend(found.iter().map(|reference| reference.sha256().to_owned()));
        }
        (present, referred)
    }

    fn objects(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory().join(OBJECTS));
        let entries = entries.into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    fn object(&self, hash: &str) -> PathBuf {
        self.directory().join(OBJECTS).join(hash)
    }

    fn make_objects(&self) -> io::Result<()> {
        self.run_directory()
            .make_directory(&self.directory().join(OBJECTS))
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::tests::{checkpoint, number};
    use super::super::{Files, Saved};
    use super::*;

    /// Saves a checkpoint whose hook's state has these references.
    fn save(store: &Store, tag: &str, value: f32, refers: &[&CheckpointRef]) -> CheckpointRef {
        let mut content = checkpoint(tag, value);
        let state = serde_json::to_vec(refers).expect("JSON");
        content.hooks[0].state = Some(state);
        let Saved { sha256, .. } = store
            .write(&Files::of(&content).expect("files"))
            .expect("saved");
        CheckpointRef::of_saved(tag, 1, 3, &sha256).expect("a reference")
    }

    fn objects(store: &Store) -> usize {
        store.objects().len()
    }

    #[test]
    fn what_a_state_refers_to_stays_until_the_last_checkpoint_with_it_is_gone() {
        let output = tempfile::tempdir().expect("a directory");
        let store = Store::of(output.path());
        let first = save(&store, "best", 1.0, &[]);
        save(&store, "a", 2.0, &[&first]);
        save(&store, "b", 3.0, &[&first]);
        let second = save(&store, "best", 4.0, &[]);
        assert_eq!(objects(&store), 1);
        assert!(
            store
                .find(&first)
                .is_some_and(|path| path != store.path_of("best"))
        );
        assert_eq!(store.find(&second), Some(store.path_of("best")));
        store.remove("a").expect("removed");
        assert_eq!(objects(&store), 1, "`b` refers to it");
        // The tag gets it back, and nobody needs what it had meanwhile.
        assert!(store.restore(&first).expect("restored"));
        assert!((number(&store, "best") - 1.0).abs() < f32::EPSILON);
        assert_eq!(store.find(&second), None);
        store.remove("b").expect("removed");
        assert_eq!(objects(&store), 0);
        assert!(!store.restore(&second).expect("nothing to do"));
        assert!(!store.directory().join(OBJECTS).exists());
    }

    #[test]
    fn a_copy_of_it_under_another_tag_is_as_good() {
        let output = tempfile::tempdir().expect("a directory");
        let store = Store::of(output.path());
        let first = save(&store, "a", 1.0, &[]);
        store.copy("a", "best").expect("copied");
        save(
            &store,
            "b",
            2.0,
            &[&first.copied_to("best").expect("a tag")],
        );
        store.remove("best").expect("removed");
        assert_eq!(objects(&store), 0, "`a` has the same contents");
        store.remove("a").expect("removed");
        assert_eq!(objects(&store), 1);
        assert!(
            store
                .restore(&first.copied_to("best").expect("a tag"))
                .expect("restored")
        );
        assert_eq!(store.tags(), ["b", "best"]);
    }

    #[test]
    fn what_a_killed_process_was_about_to_keep_is_kept() {
        let output = tempfile::tempdir().expect("a directory");
        let store = Store::of(output.path());
        let first = save(&store, "best", 1.0, &[]);
        save(&store, "a", 2.0, &[&first]);
        let at = |name: &str| store.directory().join(name);
        std::fs::rename(at("best"), at(".best.new-17")).expect("renamed");
        assert!(store.find(&first).is_some(), "also before that");
        store.recover().expect("recovered");
        assert_eq!(objects(&store), 1);
        assert!(store.restore(&first).expect("restored"));
    }

    #[test]
    fn one_with_other_or_missing_files_is_not_it() {
        let output = tempfile::tempdir().expect("a directory");
        let store = Store::of(output.path());
        let first = save(&store, "best", 1.0, &[]);
        let file = store.path_of("best").join("training.safetensors");
        std::fs::write(&file, "short").expect("written");
        assert_eq!(store.find(&first), None);
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(store.find(&first), None);
    }

    #[test]
    fn a_checkpoint_brought_to_another_run_has_all_that_it_refers_to() {
        let place = tempfile::tempdir().expect("a directory");
        let [old, new] = ["old", "new"].map(|name| {
            let output = place.path().join(name);
            std::fs::create_dir(&output).expect("made");
            Store::of(&output)
        });
        let deep = save(&old, "deep", 1.0, &[]);
        let best = save(&old, "best", 2.0, &[&deep]);
        save(&old, "last", 3.0, &[&best]);
        save(&old, "best", 4.0, &[]);
        save(&old, "other", 5.0, &[]);
        new.bring(&old.path_of("last"), "last").expect("brought");
        assert_eq!(new.tags(), ["best", "last"]);
        assert_eq!(new.latest().as_deref(), Some("last"));
        assert!(
            (number(&new, "best") - 2.0).abs() < f32::EPSILON,
            "what `last` refers to"
        );
        assert!(new.find(&deep).is_some() && objects(&new) == 1);
        // Of two saved within the same tick of the clock, the later by name.
        assert_eq!(new.newest_consistent().as_deref(), Some("last"));
    }
}
