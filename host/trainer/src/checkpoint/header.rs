//! What the header of a checkpoint on disk says, read without its tensors.

use std::path::Path;

use super::CheckpointHeader;
use super::index::Index;
use super::layout::{STATE, parsed};
use crate::data::DataFile;

/// Epochs finished when a checkpoint was saved; `None` if it can't be read.
pub fn epoch_of(directory: &Path) -> Option<u64> {
    header_of(directory).map(|header| header.progress.epoch)
}

/// Files that the data of a checkpoint's run were read from; `None` if it can't be read.
pub fn data_of(directory: &Path) -> Option<Vec<DataFile>> {
    header_of(directory).map(|header| header.facts.files)
}

/// Whether a checkpoint has adapters, and not the model that they were trained beside.
pub(super) fn lacks_base(directory: &Path) -> bool {
    header_of(directory).is_some_and(|header| header.facts.base.is_some())
}

fn header_of(directory: &Path) -> Option<CheckpointHeader> {
    let state = Index::read(directory).ok()?.file(directory, STATE).ok()?;
    parsed(&state).ok()
}
