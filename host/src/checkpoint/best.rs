//! Which of a run's checkpoints hooks have noted as the best one.

use sconce_plugin_api::ext::{BEST_CHECKPOINT, check_tag};
use serde::Deserialize;

use super::index::Index;
use super::layout::{STATE, parsed};
use super::{Header, Stage, Store};

/// A note of the best checkpoint, as [`BEST_CHECKPOINT`] says it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Best {
    /// Its tag.
    pub tag: String,
    /// The metric by which it is the best, as `val/loss`.
    #[serde(default)]
    pub metric: String,
    /// The metric's value.
    #[serde(default)]
    pub value: Option<f64>,
}

/// The best checkpoint of a run, as the newest of its checkpoints that can be read notes it; nothing where
/// none does, or where it is not there.
pub fn best(store: &Store) -> Option<Best> {
    let headers = store.tags().into_iter().filter_map(|tag| {
        let directory = store.path_of(&tag);
        let state = Index::read(&directory).ok()?.file(&directory, STATE).ok()?;
        parsed::<Header>(&state).ok()
    });
    let newest = headers.max_by_key(|header| {
        let progress = &header.progress;
        // Once a cycle is over the next epoch is what comes next.
        (
            progress.iteration,
            progress.epoch,
            progress.stage == Stage::Epoch,
        )
    })?;
    let is_note = |name: &str| {
        let rest = name.strip_prefix(BEST_CHECKPOINT);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut notes = newest.values.iter().filter(|value| is_note(&value.name));
    notes.find_map(|note| {
        let best: Best = serde_json::from_str(note.value.get()).ok()?;
        // A checkpoint is outside input: a tag from it becomes a path.
        let is_there = check_tag(&best.tag).is_ok() && store.tags().contains(&best.tag);
        is_there.then_some(best)
    })
}
