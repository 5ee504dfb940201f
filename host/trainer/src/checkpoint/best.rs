//! The checkpoint of a run that hooks have noted as the best.

use std::path::PathBuf;

use sconce_plugin_api::CheckpointRef;
use sconce_plugin_api::ext::{BEST_CHECKPOINT, check_tag};
use serde::Deserialize;

use super::index::Index;
use super::layout::{STATE, parsed};
use super::{CheckpointHeader, Store, TrainingStage};

/// Note about the best checkpoint, published by a hook as [`BEST_CHECKPOINT`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct BestCheckpoint {
    /// Tag of the checkpoint.
    pub tag: String,
    /// Metric that selected it, such as `val/loss`.
    #[serde(default)]
    pub metric: String,
    /// Value of the metric.
    #[serde(default)]
    pub value: Option<f64>,
    /// The checkpoint itself, once it is saved.
    #[serde(default)]
    reference: Option<CheckpointRef>,
    /// Until then, in the checkpoint itself: the tag under which it is saved first.
    #[serde(default)]
    saved_as: Option<String>,
    /// Directory of the checkpoint.
    #[serde(skip)]
    pub path: PathBuf,
}

/// Returns the best checkpoint of a run according to its newest readable checkpoint; `None` if that one
/// has no note, or the noted checkpoint does not exist.
pub fn best(store: &Store) -> Option<BestCheckpoint> {
    let headers = store.tags().into_iter().filter_map(|tag| {
        let directory = store.path_of(&tag);
        let state = Index::read(&directory).ok()?.file(&directory, STATE).ok()?;
        let header = parsed::<CheckpointHeader>(&state).ok()?;
        Some((directory, header))
    });
    let (newest, header) = headers.max_by_key(|(_, header)| {
        let progress = &header.progress;
        // A finished cycle is followed by the next epoch.
        (
            progress.iteration,
            progress.epoch,
            progress.stage == TrainingStage::Epoch,
        )
    })?;
    let is_note = |name: &str| {
        let rest = name.strip_prefix(BEST_CHECKPOINT);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut notes = header.values.iter().filter(|value| is_note(&value.name));
    notes.find_map(|note| {
        let best: BestCheckpoint = serde_json::from_str(note.value.get()).ok()?;
        // A checkpoint is untrusted input: a tag from it becomes a path.
        check_tag(&best.tag).ok()?;
        let path = match (&best.reference, &best.saved_as) {
            // A tag may have got other contents since.
            (Some(reference), _) => store.find(reference)?,
            // Tags that it gets too may not exist yet.
            (None, Some(tag)) if *tag == header.tag => newest.clone(),
            _ => Some(store.path_of(&best.tag)).filter(|_| store.tags().contains(&best.tag))?,
        };
        Some(BestCheckpoint { path, ..best })
    })
}
