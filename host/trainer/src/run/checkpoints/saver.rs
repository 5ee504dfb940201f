//! Destination and list of a run's checkpoints.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sconce_plugin_api::ext::{Asked, check_tag};
use serde_json::Value;

use super::save_options::{CheckpointExtent, SaveOptions};
use super::writing::{WriteResult, WriteTask, Writing};
use crate::bridge::BridgeState;
use crate::checkpoint::{
    CheckpointError, Files, HistoryRecord, MOST_RECORDS, PreprocessingFiles, Saved, Store,
};
use crate::data::DataFile;
use crate::run::checkpoints::queue::RequestQueue;

/// State of saving: where checkpoints go, and those saved or waiting.
pub(in crate::run) struct Saver {
    /// Name of the run.
    pub(in crate::run) name: String,
    /// The resolved manifest.
    pub(in crate::run) manifest: Value,
    /// Files that the run's data were read from.
    pub(in crate::run) files: Vec<DataFile>,
    /// What was learnt from the training data.
    pub(in crate::run) preprocessing: PreprocessingFiles,
    /// Output directory of the run.
    pub(in crate::run) directory: Option<PathBuf>,
    /// The directory of its checkpoints; none if the run saves none.
    pub(in crate::run) store: Option<Store>,
    /// Tag, hook and options of saves that wait for the end of a validation.
    pub(in crate::run) waiting: VecDeque<(String, String, SaveOptions)>,
    /// Requests being served.
    pub(in crate::run) queue: RequestQueue,
    /// The checkpoint being written.
    pub(in crate::run) writing: Option<Writing>,
    /// What has happened to the hooks.
    pub(in crate::run) history: Vec<HistoryRecord>,
    /// The checkpoints saved so far.
    pub(in crate::run) checkpoints: Vec<PathBuf>,
    /// The last full one, from which the run resumes.
    pub(in crate::run) last_checkpoint: Option<PathBuf>,
    /// A later one that is not exact.
    pub(in crate::run) inexact_checkpoint: Option<PathBuf>,
}

impl Saver {
    /// For a run without a directory, which saves nothing.
    pub(in crate::run) fn nowhere() -> Saver {
        Saver {
            name: "run".to_owned(),
            manifest: Value::Null,
            files: Vec::new(),
            preprocessing: PreprocessingFiles::default(),
            directory: None,
            store: None,
            waiting: VecDeque::new(),
            queue: RequestQueue::default(),
            writing: None,
            history: Vec::new(),
            checkpoints: Vec::new(),
            last_checkpoint: None,
            inexact_checkpoint: None,
        }
    }

    /// Starts writing files that were copied from `start` on, when the epochs and updates `at` were finished.
    pub(in crate::run) fn begin_writing(
        &mut self,
        store: Store,
        hook: &str,
        (tag, extent): (&str, CheckpointExtent),
        files: Result<Files, CheckpointError>,
        start: Instant,
        at: (u64, u64),
    ) {
        let path = store.path_of(tag);
        let work = match files {
            Ok(files) => WriteTask::begin(store, files, start),
            Err(error) => WriteTask::Over(WriteResult {
                result: Err(error),
                seconds: 0.0,
            }),
        };
        self.writing = Some(Writing {
            tag: tag.to_owned(),
            hook: hook.to_owned(),
            path,
            extent,
            at,
            work,
        });
    }

    /// Records what has been written, or warns in `log` that writing failed.
    pub(in crate::run) fn note(
        &mut self,
        written: &Result<Saved, String>,
        tag: &str,
        path: &Path,
        extent: CheckpointExtent,
        log: &BridgeState<'_>,
    ) {
        if let Err(error) = written {
            log.warn(&format!("the checkpoint `{tag}` is not saved: {error}"));
            return;
        }
        if extent == CheckpointExtent::Whole {
            self.last_checkpoint = Some(path.to_owned());
            log.trail.set_checkpoint(&path.to_string_lossy());
        }
        if !self.checkpoints.iter().any(|known| known == path) {
            self.checkpoints.push(path.to_owned());
        }
    }

    /// Tag of the last full checkpoint, if it is among the run's own.
    pub(in crate::run) fn last_tag(&self) -> Option<String> {
        let directory = self.store.as_ref()?.directory();
        let tag = self
            .last_checkpoint
            .as_ref()?
            .strip_prefix(directory)
            .ok()?;
        let tag = tag.to_str().filter(|tag| check_tag(tag).is_ok());
        tag.map(ToOwned::to_owned)
    }

    /// Records that the checkpoint at `path`, saved last, is not exact: if another is there to resume from, `latest` leads to
    /// that.
    pub(in crate::run) fn note_inexact(&mut self, store: &Store, path: &Path) {
        let latest = store.latest().map(|tag| store.path_of(&tag));
        if let Some(latest) = latest.filter(|latest| latest != path) {
            self.last_checkpoint = Some(latest);
            self.inexact_checkpoint = Some(path.to_owned());
        }
    }

    /// Adds to the run's history, if there is room: as much for changes as for refusals.
    pub(in crate::run) fn note_history(&mut self, record: HistoryRecord) {
        if self.has_room_in_history(record.is_refusal()) {
            self.history.push(record);
        }
    }

    /// Whether there is room for a refusal, or for a change.
    pub(in crate::run) fn has_room_in_history(&self, of_refusals: bool) -> bool {
        let history = self.history.iter();
        let alike = history.filter(|record| record.is_refusal() == of_refusals);
        alike.count() < MOST_RECORDS
    }

    /// Puts requests of a mount point that an error has left into the queue: they are not served any more, but a checkpoint
    /// saved now contains them. Only those about checkpoints, which hooks' states count on: rollbacks and swaps were for what
    /// the error has ended.
    pub(in crate::run) fn leave_unserved(&mut self, mut asked: Vec<(Asked, String)>) {
        asked.retain(|(asked, _)| {
            matches!(
                asked,
                Asked::Save { .. } | Asked::Copy { .. } | Asked::Delete(_) | Asked::Publish { .. }
            )
        });
        self.queue.put_before_others(asked);
    }

    /// What hooks have requested up to now and has not been served: a checkpoint saved now contains it.
    pub(in crate::run) fn unserved(&self) -> Vec<(Asked, String)> {
        let waiting =
            (self.waiting.iter()).map(|(tag, hook, options)| (options.request(tag), hook.clone()));
        self.queue.iter().cloned().chain(waiting).collect()
    }
}

/// The existing tags, for a message.
pub(in crate::run) fn known(tags: &[String]) -> String {
    if tags.is_empty() {
        return "; no checkpoint has been saved".to_owned();
    }
    let tags: Vec<String> = tags.iter().map(|tag| format!("`{tag}`")).collect();
    format!("; there are {}", tags.join(", "))
}
