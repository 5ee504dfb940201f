//! The checkpoints of a run: one directory per tag, and `latest`, a link to the one saved last.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::{self, Saved, hash_of};
use super::{Checkpoint, CheckpointError, Files, RawFiles};
use crate::data::Preprocessing;
use crate::data::preprocessing::is_rows_name;
use sconce_base::regular_file::read_regular;

use sconce_base::held_directory::{HeldDirectory, aside};

/// Name of the link to the last checkpoint; not allowed as a tag.
pub use sconce_plugin_api::ext::LATEST;

/// Tag of the checkpoint of a run ended by a signal.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// Tag of the checkpoint of a run ended by an error.
pub(crate) const FAILED: &str = "failed";
use sconce_plugin_api::ext::check_tag;

/// The directory `checkpoints` of a run.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
    /// The run's directory, by which everything is written; held while there is a run.
    run: HeldDirectory,
    /// What the run has learnt from its training data: the hashes of their rows are kept once, beside the checkpoints.
    learnt: Option<Arc<Preprocessing>>,
}

impl Store {
    /// Returns the store of the run with this output directory, without accessing the disk.
    pub fn of(output: &Path) -> Store {
        Store::at(output.join("checkpoints"))
    }

    /// Returns the store with this directory of checkpoints.
    pub(super) fn at(directory: PathBuf) -> Store {
        let run = HeldDirectory::unheld(directory.parent().unwrap_or(&directory));
        Store {
            directory,
            run,
            learnt: None,
        }
    }

    /// Holds the run's directory, if it isn't held yet: what is written later goes to it, and to no other in its place.
    pub fn holding(self) -> Store {
        if self.run.is_held() {
            return self;
        }
        let run = HeldDirectory::hold(self.run.path());
        Store { run, ..self }
    }

    /// Keeps the hashes of the training's rows beside the checkpoints, whose `preprocessing.json` refers to them.
    pub fn with_rows_of(self, learnt: Option<Arc<Preprocessing>>) -> Store {
        Store { learnt, ..self }
    }

    /// The run's directory, by which its other files are written, too.
    pub fn run_directory(&self) -> &HeldDirectory {
        &self.run
    }

    /// Path of the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Path of a tag's checkpoint.
    pub fn path_of(&self, tag: &str) -> PathBuf {
        self.directory.join(tag)
    }

    /// Writes a checkpoint under its tag and points `latest` to it, or to the one before it if it is not exact. After an error
    /// the earlier checkpoints are unchanged.
    pub fn write(&self, files: &Files) -> Result<Saved, CheckpointError> {
        let failed = |source| CheckpointError::Write {
            source,
            needed: files.bytes(),
            free: None,
        };
        if let Some(reason) = self.lost() {
            return Err(CheckpointError::Vanished(reason));
        }
        let made = self
            .make()
            .and_then(|()| self.write_rows())
            .and_then(|()| self.clear_aside(&files.tag));
        let written = made.map_err(failed).and_then(|()| {
            let (saved, earlier) = directory::write(&self.run, &self.path_of(&files.tag), files)?;
            self.discard_quietly(earlier.as_deref());
            if files.is_complete {
                self.lead_to(&self.to_resume_from(files)).map_err(failed)?;
            }
            Ok(saved)
        });
        written.map_err(|error| match self.vanished() {
            Some(reason) => CheckpointError::Vanished(reason),
            None => error,
        })
    }

    /// Writes the hashes of the training's rows, if they aren't there: checkpoints refer to them.
    fn write_rows(&self) -> io::Result<()> {
        let Some(learnt) = &self.learnt else {
            return Ok(());
        };
        let (Some(name), Some(rows)) = (learnt.source.rows_name(), learnt.split_rows()) else {
            return Ok(());
        };
        let file = self.directory.join(name);
        if self.run.exists(&file) {
            // Its name says which rows they are.
            return Ok(());
        }
        self.run.write_atomically(&file, &rows.to_bytes())
    }

    /// Brings the files of rows that another run's checkpoints refer to.
    pub(super) fn bring_rows(&self, other: &Store) -> io::Result<()> {
        for entry in fs_err::read_dir(other.directory())? {
            let name = entry?.file_name();
            let place = self.directory.join(&name);
            if is_rows_name(&name.to_string_lossy()) && !self.run.exists(&place) {
                self.run
                    .link_or_copy(&other.directory.join(&name), &place)?;
            }
        }
        Ok(())
    }

    /// Creates the directory, but not the run's directory above it.
    pub(super) fn make(&self) -> io::Result<()> {
        self.run.make_directory(&self.directory)
    }

    /// If the directory that the run [holds](Store::holding) is gone, or another is in its place, a message that says so.
    pub fn lost(&self) -> Option<String> {
        self.run.vanished().filter(|_| self.run.is_held())
    }

    /// As [`lost`](Store::lost); also if no directory is held, and none is there.
    pub fn vanished(&self) -> Option<String> {
        self.run.vanished()
    }

    /// Copies a checkpoint to another tag atomically, with hard links; files are copied only if the
    /// file system has none. After an error nothing has changed.
    pub fn copy(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, place) = (self.path_of(from), self.path_of(to));
        let hash = hash_of(&from);
        if hash.is_some() && hash == hash_of(&place) {
            return Ok(());
        }
        self.replace(&from, &place)
    }

    /// Removes the checkpoint of a tag, if there is one. If the process is killed meanwhile, the
    /// checkpoint is either complete or no longer listed.
    pub fn remove(&self, tag: &str) -> io::Result<()> {
        let place = self.path_of(tag);
        if !self.run.exists(&place) {
            return Ok(());
        }
        if self.latest().as_deref() == Some(tag) {
            self.run.remove(&self.directory.join(LATEST))?;
        }
        // A directory with this name is cleared away by the next process that takes over the run.
        let doomed = aside(&place, "new");
        self.run.rename(&place, &doomed)?;
        self.discard(&doomed)
    }

    /// Reads the checkpoint of a tag.
    pub fn read(&self, tag: &str) -> Result<Checkpoint, CheckpointError> {
        directory::read(&self.path_of(tag))
    }

    /// Reads the files of a tag's checkpoint.
    pub fn read_raw(&self, tag: &str) -> Result<RawFiles, CheckpointError> {
        directory::read_raw(&self.path_of(tag))
    }

    /// Tag of the checkpoint that a run resumes from which names none, once this one is written.
    fn to_resume_from(&self, files: &Files) -> String {
        let before = files.exact_before.as_ref().filter(|_| !files.is_exact);
        let is_there =
            |tag: &&String| **tag != files.tag && directory::complete(&self.path_of(tag)).is_ok();
        before.filter(is_there).unwrap_or(&files.tag).clone()
    }

    /// Points `latest` to a tag atomically.
    pub(super) fn lead_to(&self, tag: &str) -> io::Result<()> {
        let place = self.directory.join(LATEST);
        let beside = aside(&place, "new");
        drop(self.run.remove(&beside));
        self.link(tag, &beside)?;
        if let Err(error) = self.run.rename(&beside, &place) {
            drop(self.run.remove(&beside));
            return Err(error);
        }
        self.run.sync(&self.directory)
    }

    /// Creates a link to a tag, or a file containing it if the file system has no links.
    fn link(&self, tag: &str, place: &Path) -> io::Result<()> {
        if self.run.link_to(Path::new(tag), place).is_ok() {
            return Ok(());
        }
        self.run.write_synced(place, format!("{tag}\n").as_bytes())
    }

    /// Tag that `latest` points to; `None` if it points out of the run's checkpoints.
    pub fn latest(&self) -> Option<String> {
        let place = self.directory.join(LATEST);
        let target = std::fs::read_link(&place);
        let text = target
            .map(|target| target.to_string_lossy().into_owned())
            .or_else(|_| {
                read_regular(&place).map(|text| String::from_utf8_lossy(&text).into_owned())
            });
        let text = text.ok()?;
        let tag = text.trim();
        // A link to anywhere else was not made by this program.
        check_tag(tag).is_ok().then(|| tag.to_owned())
    }

    /// Tags of the finished checkpoints, newest first.
    pub fn newest_first(&self) -> Vec<String> {
        let mut tags = self.tags();
        tags.sort_by_cached_key(|tag| {
            let saved = directory::saved_at(&self.path_of(tag));
            std::cmp::Reverse((saved, tag.clone()))
        });
        tags
    }

    /// Tags of the finished checkpoints, sorted by name.
    pub fn tags(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut tags: Vec<String> = names
            .filter_map(|name| name.into_string().ok())
            .filter(|name| name != LATEST && !name.starts_with('.'))
            .filter(|name| directory::is_finished(&self.path_of(name)))
            .collect();
        tags.sort();
        tags
    }

    /// Restores what a killed process was replacing, and removes what it had not finished. Only the
    /// holder of the run's lock may call it.
    pub fn recover(&self) -> io::Result<()> {
        let Ok(entries) = std::fs::read_dir(&self.directory) else {
            return Ok(());
        };
        let mut left = Vec::new();
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let of = |what: &str| {
                let (tag, process) = name.strip_prefix('.')?.rsplit_once(what)?;
                process.parse::<u32>().is_ok().then(|| self.path_of(tag))
            };
            if let Some(place) = of(".old-")
                && !self.run.exists(&place)
            {
                self.run.rename(&entry.path(), &place)?;
            } else if of(".old-").or_else(|| of(".new-")).is_some() {
                left.push(entry.path());
            }
        }
        // A complete one may have lost its tag while a state refers to it: known once all tags are there again.
        left.iter().try_for_each(|path| self.discard(path))
    }

    /// Removes all checkpoints.
    pub fn clear(&self) -> io::Result<()> {
        match self.run.remove(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use candle_core::{Device, Tensor};
    use serde_json::json;

    use super::super::{
        ChangedSettings, CheckpointHeader, Facts, HookRecord, Progress, Section, TrainingStage,
    };
    use super::*;
    use sconce_base::exact::Exact;

    pub(in super::super) fn checkpoint(tag: &str, number: f32) -> Checkpoint {
        let tensor = |n| Tensor::new(&[n, 1.0], &Device::Cpu).expect("a tensor");
        Checkpoint {
            header: CheckpointHeader {
                format: super::super::FORMAT,
                host: "sconce 0".to_owned(),
                tag: tag.to_owned(),
                run: "r".to_owned(),
                exact: true,
                progress: Progress {
                    epoch: 1,
                    iteration: 5,
                    update: 3,
                    samples: 4,
                    batch: 0,
                    ordinal: 6,
                    stage: TrainingStage::Cycle,
                    number: None,
                    rounds: None,
                    validated: None,
                },
                seconds: 1.5,
                measured: None,
                first_loss: None,
                pass: None,
                facts: Facts::default(),
                learning_rates: vec![("default".to_owned(), Exact(0.1))],
                settings: ChangedSettings::default(),
                metrics: Vec::new(),
                values: Vec::new(),
                publishers: Vec::new(),
                extra: Vec::new(),
                history: Vec::new(),
                unserved: Vec::new(),
                accumulated: Vec::new(),
                accumulated_weight: None,
            },
            hooks: vec![HookRecord {
                name: "h".to_owned(),
                state: Some(vec![0xff, 1]),
                ..HookRecord::default()
            }],
            manifest: json!({"name": "r"}),
            preprocessing: super::super::PreprocessingFiles::default(),
            tensors: vec![
                (Section::Parameters.full_name("a"), tensor(number)),
                (Section::Optimizer.full_name("a.step"), tensor(7.0)),
            ],
        }
    }

    fn save(store: &Store, tag: &str, number: f32) -> Result<Saved, CheckpointError> {
        store.write(&Files::of(&checkpoint(tag, number)).expect("files"))
    }

    pub(in super::super) fn number(store: &Store, tag: &str) -> f32 {
        let checkpoint = store.read(tag).expect("it is whole");
        let tensor = checkpoint.tensor("parameters/a").expect("it is there");
        tensor.to_vec1::<f32>().expect("numbers")[0]
    }

    fn names(store: &Store) -> Vec<String> {
        let entries = std::fs::read_dir(store.directory()).expect("it is there");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("text")
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_checkpoint_comes_back_as_it_was_and_latest_leads_to_the_last() {
        let output = tempfile::tempdir().expect("a directory");
        let store = Store::of(output.path());
        assert_eq!(store.latest(), None);
        let bytes = save(&store, "a", 1.0).expect("saved").bytes;
        save(&store, "b", 2.0).expect("saved");
        assert_eq!(store.latest().as_deref(), Some("b"));
        save(&store, "a", 3.0).expect("replaced");
        assert_eq!(store.latest().as_deref(), Some("a"));
        assert_eq!((number(&store, "a"), number(&store, "b")), (3.0, 2.0));
        assert_eq!(names(&store), ["a", "b", LATEST], "nothing beside them");
        assert_eq!(store.tags(), ["a", "b"]);
        let files = std::fs::read_dir(store.path_of("a")).expect("files");
        let sizes = files.map(|file| file.and_then(|file| file.metadata()).expect("a file").len());
        assert_eq!(sizes.sum::<u64>(), bytes);

        let back = store.read("b").expect("it is whole");
        let given = checkpoint("b", 2.0);
        assert_eq!(back.hooks, given.hooks);
        assert_eq!(back.header.progress, given.header.progress);
        assert_eq!(back.manifest, given.manifest);
        assert_eq!(back.under(Section::Optimizer).count(), 1);
        let parameters = directory::parameters(&store.path_of("b")).expect("parameters");
        assert_eq!(parameters[0].0, "a");
    }

    #[test]
    fn latest_leads_to_one_that_is_not_exact_only_if_there_is_no_other() {
        let output = tempfile::tempdir().expect("a directory");
        let store = Store::of(output.path());
        let fail = |before: Option<&str>| {
            let mut failed = checkpoint("failed", 9.0);
            failed.header.exact = false;
            let files = Files::of(&failed).expect("files");
            let files = files.after(before.map(ToOwned::to_owned));
            store.write(&files).expect("saved");
            store.latest()
        };
        assert_eq!(fail(None).as_deref(), Some("failed"));
        assert_eq!(fail(Some("deleted")).as_deref(), Some("failed"));
        for tag in ["a", "other"] {
            save(&store, tag, 1.0).expect("saved");
        }
        assert_eq!(fail(Some("a")).as_deref(), Some("a"));
        assert_eq!(fail(Some("failed")).as_deref(), Some("failed"));
    }

    #[test]
    fn the_newest_is_first_and_latest_leads_nowhere_else() {
        let output = tempfile::tempdir().expect("a directory");
        let store = Store::of(output.path());
        for tag in ["b", "c", "a"] {
            save(&store, tag, 1.0).expect("saved");
            // File systems may store times at a coarse resolution.
            let index = store.path_of(tag).join("index.json");
            let file = std::fs::File::options()
                .append(true)
                .open(index)
                .expect("a file");
            let ordinal = "bca".find(tag).expect("a tag") as u64;
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000 + ordinal);
            file.set_modified(time).expect("a time");
        }
        assert_eq!(store.newest_first(), ["a", "c", "b"]);
        let latest = store.directory().join(LATEST);
        std::fs::remove_file(&latest).expect("removed");
        for target in ["", "../../elsewhere", "/etc", "..", "a/b"] {
            std::fs::write(&latest, target).expect("written");
            assert_eq!(store.latest(), None, "{target:?}");
        }
        std::fs::write(&latest, "b\n").expect("written");
        assert_eq!(store.latest().as_deref(), Some("b"));
    }

    #[test]
    fn a_directory_that_vanished_is_the_reason() {
        let output = tempfile::tempdir().expect("a directory");
        let store = Store::of(&output.path().join("run"));
        let error = save(&store, "a", 1.0)
            .expect_err("no directory")
            .to_string();
        assert!(error.contains("run` is not there any more"), "{error}");
        assert!(!output.path().join("run").exists(), "it is not made again");
    }

    #[test]
    fn a_copy_is_a_checkpoint_of_its_own_and_a_removed_one_is_gone() {
        let output = tempfile::tempdir().expect("a directory");
        let store = Store::of(output.path());
        save(&store, "a", 1.0).expect("saved");
        store.copy("a", "best").expect("copied");
        assert_eq!(store.latest().as_deref(), Some("a"));
        save(&store, "a", 2.0).expect("replaced");
        assert_eq!((number(&store, "a"), number(&store, "best")), (2.0, 1.0));
        store.copy("a", "best").expect("replaced");
        store.remove("a").expect("removed");
        store.remove("a").expect("there is nothing to remove");
        assert_eq!(names(&store), ["best"], "`latest` leads nowhere without it");
        assert!((number(&store, "best") - 2.0).abs() < f32::EPSILON);
        store.copy("a", "b").expect_err("there is no `a`");
        assert_eq!(names(&store), ["best"]);
    }

    #[test]
    fn parameters_alone_are_no_checkpoint_to_go_on_from() {
        let output = tempfile::tempdir().expect("a directory");
        let store = Store::of(output.path());
        let files = Files::of(&checkpoint("a", 1.0)).expect("files");
        store.write(&files.parameters_alone()).expect("saved");
        assert_eq!(store.latest(), None);
        let error = store.read("a").expect_err("no whole one").to_string();
        assert!(error.contains("it has the parameters alone"), "{error}");
        let parameters = directory::parameters(&store.path_of("a")).expect("parameters");
        assert_eq!(parameters.len(), 1);
    }

    #[test]
    fn every_damage_to_every_file_is_found_and_named() {
        let output = tempfile::tempdir().expect("a directory");
        let store = Store::of(output.path());
        for name in [
            "parameters.safetensors",
            "training.safetensors",
            "state.json",
            "hooks.json",
            "manifest.json",
            "index.json",
        ] {
            for damage in ["cut", "bit", "gone"] {
                save(&store, "a", 1.0).expect("saved");
                let path = store.path_of("a").join(name);
                let mut bytes = std::fs::read(&path).expect("a file");
                let middle = bytes.len() / 2;
                match damage {
                    "cut" => bytes.truncate(middle),
                    _ => bytes[middle] ^= 1,
                }
                std::fs::write(&path, bytes).expect("written");
                if damage == "gone" {
                    std::fs::remove_file(&path).expect("removed");
                }
                let error = store.read("a").expect_err(name).to_string();
                assert!(error.contains("is not a whole checkpoint"), "{error}");
                // A flipped bit in the index may change another file's hash: then the error names
                // that file.
                let is_named = error.contains(name) || name == "index.json";
                assert!(is_named, "{name} {damage}: {error}");
            }
        }
        let error = store.read("b").expect_err("there is none").to_string();
        assert!(error.contains("there is no checkpoint"), "{error}");
    }

    #[test]
    fn what_killed_writers_left_is_cleared_away_and_what_they_held_comes_back() {
        let output = tempfile::tempdir().expect("a directory");
        let store = Store::of(output.path());
        save(&store, "a", 1.0).expect("saved");
        save(&store, "b", 2.0).expect("saved");
        let at = |name: &str| store.directory().join(name);
        std::fs::rename(at("a"), at(".a.old-17")).expect("renamed");
        std::fs::create_dir(at(".a.new-17")).expect("made");
        std::fs::write(at(".a.new-17/state.json"), "{").expect("written");
        std::fs::create_dir(at(".b.old-17")).expect("made");
        std::fs::write(at(".latest.new-17"), "c").expect("written");
        assert_eq!(store.tags(), ["b"]);
        store.recover().expect("recovered");
        assert_eq!(names(&store), ["a", "b", LATEST]);
        assert!((number(&store, "a") - 1.0).abs() < f32::EPSILON);
        store.clear().expect("removed");
        store.clear().expect("nothing to remove");
        store.recover().expect("nothing to do");
    }

    #[test]
    fn where_it_cant_be_written_the_earlier_ones_stay_and_nothing_is_left() {
        let output = tempfile::tempdir().expect("a directory");
        let store = Store::of(output.path());
        save(&store, "a", 1.0).expect("saved");
        // A name too long for the file system, but valid as a tag.
        let tag = "x".repeat(255);
        let error = save(&store, &tag, 2.0).expect_err("too long").to_string();
        assert!(error.contains("the checkpoint needs"), "{error}");
        assert_eq!(names(&store), ["a", LATEST]);
        assert_eq!(store.latest().as_deref(), Some("a"));
    }
}
