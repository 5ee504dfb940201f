//! How a checkpoint is saved, and with what result.

use std::path::Path;

use sconce_plugin_api::CheckpointRef;
use sconce_plugin_api::abi::{CheckpointAbi, TextAbi};
use sconce_plugin_api::ext::Asked;

use crate::checkpoint::Saved;

/// Extent of a checkpoint's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) enum CheckpointExtent {
    /// Everything needed to resume the run.
    Whole,
    /// Only the parameters and buffers.
    Parameters,
}

/// Options of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct SaveOptions {
    pub(in crate::run) extent: CheckpointExtent,
    /// Whether training continues while the checkpoint is written.
    pub(in crate::run) in_background: bool,
}

impl SaveOptions {
    pub(in crate::run) const COMPLETE: SaveOptions = SaveOptions {
        extent: CheckpointExtent::Whole,
        in_background: false,
    };
    pub(in crate::run) const PARAMETERS: SaveOptions = SaveOptions {
        extent: CheckpointExtent::Parameters,
        in_background: false,
    };

    /// The request for such a save.
    pub(in crate::run) fn request(self, tag: &str) -> Asked {
        Asked::Save {
            tag: tag.to_owned(),
            parameters_only: self.extent == CheckpointExtent::Parameters,
            in_background: self.in_background,
        }
    }

    /// The same, written in the background or not.
    pub(in crate::run) const fn written(self, in_background: bool) -> SaveOptions {
        SaveOptions {
            in_background,
            ..self
        }
    }
}

/// The result of writing or reading a checkpoint, as reported to hooks.
#[derive(Clone, Copy)]
pub(in crate::run) struct CheckpointResult<'a> {
    pub(in crate::run) path: &'a Path,
    pub(in crate::run) tag: &'a str,
    pub(in crate::run) hook: &'a str,
    pub(in crate::run) error: &'a str,
    pub(in crate::run) bytes: u64,
    pub(in crate::run) seconds: f64,
    /// Text of the reference to it; empty before it is on disk.
    pub(in crate::run) reference: &'a str,
    /// Texts of references in the loaded states whose checkpoints don't exist, separated by spaces.
    pub(in crate::run) missing: &'a str,
}

impl<'a> CheckpointResult<'a> {
    pub(in crate::run) fn new(path: &'a Path, tag: &'a str, hook: &'a str) -> CheckpointResult<'a> {
        CheckpointResult {
            path,
            tag,
            hook,
            error: "",
            bytes: 0,
            seconds: 0.0,
            reference: "",
            missing: "",
        }
    }

    /// As hooks are given it; `path` is the text of its own.
    pub(in crate::run) fn payload(&self, path: &'a str) -> CheckpointAbi {
        CheckpointAbi {
            path: TextAbi::new(path),
            tag: TextAbi::new(self.tag),
            hook: TextAbi::new(self.hook),
            error: TextAbi::new(self.error),
            bytes: self.bytes,
            seconds: self.seconds,
            reference: TextAbi::new(self.reference),
            missing: TextAbi::new(self.missing),
        }
    }

    /// With what a save has resulted in.
    pub(in crate::run) fn with(
        self,
        saved: &'a Result<Saved, String>,
        reference: &'a str,
    ) -> CheckpointResult<'a> {
        CheckpointResult {
            error: saved.as_ref().err().map_or("", String::as_str),
            bytes: saved.as_ref().map_or(0, |saved| saved.bytes),
            reference,
            ..self
        }
    }
}

/// Text of the reference to a checkpoint saved when these epochs and updates were finished; empty if it was not saved.
pub(in crate::run) fn reference_text(
    saved: &Result<Saved, String>,
    tag: &str,
    (epoch, update): (u64, u64),
) -> String {
    let reference = (saved.as_ref().ok())
        .and_then(|saved| CheckpointRef::of_saved(tag, epoch, update, &saved.sha256).ok());
    reference.map_or_else(String::new, |reference| reference.to_string())
}
