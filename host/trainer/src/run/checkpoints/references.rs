//! What hooks' states refer to, before a state is restored: each tag gets the contents that the states mean.

use sconce_plugin_api::CheckpointRef;
use serde::{Deserialize, Serialize};

use super::rank_files::on_first;
use super::saver::Saver;
use crate::checkpoint::{Checkpoint, hash_of};
use crate::run::RunError;
use crate::run::ranks::state::Ranks;

/// Texts of references, as hooks are told of them at `after_load_checkpoint`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::run) struct LoadedReferences {
    /// To the loaded checkpoint; empty if it is not there any more.
    pub(in crate::run) own: String,
    /// Those in its states whose checkpoints don't exist.
    pub(in crate::run) missing: Vec<String>,
}

impl Saver {
    /// Gives each tag that the states in a checkpoint refer to the contents that they mean: it may have got others since
    /// the checkpoint was saved. `directory` has the checkpoint.
    pub(in crate::run) fn restore_references(
        &self,
        content: &Checkpoint,
        directory: &std::path::Path,
        ranks: Option<&Ranks>,
    ) -> Result<Result<LoadedReferences, String>, RunError> {
        on_first(ranks, || {
            let Some(store) = &self.store else {
                return Ok(LoadedReferences::default());
            };
            let restore = |reference: &CheckpointRef| {
                let restored = store.restore(reference);
                restored.map_err(|error| format!("its checkpoint `{}`: {error}", reference.tag()))
            };
            let mut loaded = LoadedReferences::default();
            for (_, reference) in content.references() {
                if !restore(&reference)? {
                    loaded.missing.push(reference.to_string());
                }
            }
            // A copy may have been loaded, and a hook still have to copy it from the tag that it was saved under. Last: that tag
            // means the loaded checkpoint, also if a state refers to what it had before.
            if let Some(own) = own_reference(content, directory) {
                restore(&own)?;
                loaded.own = own.to_string();
            }
            Ok(loaded)
        })
    }
}

/// The reference to a checkpoint under the tag that it was saved under.
fn own_reference(content: &Checkpoint, directory: &std::path::Path) -> Option<CheckpointRef> {
    let header = &content.header;
    let (epoch, update) = (header.progress.epoch, header.progress.update);
    CheckpointRef::of_saved(&header.tag, epoch, update, &hash_of(directory)?).ok()
}
