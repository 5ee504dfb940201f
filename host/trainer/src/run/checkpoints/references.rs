//! What hooks' states refer to, before a state is restored: each tag gets the contents that the states mean.

use sconce_plugin_api::CheckpointRef;
use sconce_plugin_api::ext::Asked;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Checkpoint, hash_of};
use crate::run::Trainer;
use crate::run::failure::Leave;

/// Texts of references, as hooks are told of them at `after_load_checkpoint`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::run) struct LoadedReferences {
    /// To the loaded checkpoint; empty if it is not there any more.
    pub(in crate::run) own: String,
    /// Those in its states whose checkpoints don't exist.
    pub(in crate::run) missing: Vec<String>,
}

impl Trainer<'_> {
    /// Gives each tag that the states in a checkpoint refer to the contents that they mean: it may have got others since
    /// the checkpoint was saved. `directory` has the checkpoint.
    pub(in crate::run) fn restore_references(
        &mut self,
        content: &Checkpoint,
        directory: &std::path::Path,
    ) -> Result<Result<LoadedReferences, String>, Leave> {
        self.on_first(|trainer| {
            let Some(store) = &trainer.saver.store else {
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

    /// Serves what had been requested when a checkpoint was saved, and was not served before it.
    pub(in crate::run) fn serve_unserved(&mut self, content: &Checkpoint) -> Result<(), Leave> {
        self.serve_all(content.header.unserved.clone())
    }

    /// As [`serve_unserved`](Self::serve_unserved), after rolling back: not back again, which might never end.
    pub(in crate::run) fn serve_unserved_but_roll_backs(
        &mut self,
        content: &Checkpoint,
    ) -> Result<(), Leave> {
        let unserved = content.header.unserved.iter();
        let others = unserved.filter(|(asked, _)| !matches!(asked, Asked::RollBack(_)));
        self.serve_all(others.cloned().collect())
    }
}

/// The reference to a checkpoint under the tag that it was saved under.
fn own_reference(content: &Checkpoint, directory: &std::path::Path) -> Option<CheckpointRef> {
    let header = &content.header;
    let (epoch, update) = (header.progress.epoch, header.progress.update);
    CheckpointRef::of_saved(&header.tag, epoch, update, &hash_of(directory)?).ok()
}
