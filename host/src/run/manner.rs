//! How a checkpoint is saved, and with what result.

use std::path::Path;

/// Tag of the checkpoint of a run ended by a signal.
pub(super) const INTERRUPTED: &str = "interrupted";

/// Tag of the checkpoint of a run ended by an error.
pub(super) const FAILED: &str = "failed";

/// Extent of a checkpoint's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckpointExtent {
    /// Everything needed to resume the run.
    Whole,
    /// Only the parameters and buffers.
    Parameters,
}

/// Options of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    pub(super) extent: CheckpointExtent,
    /// Whether training continues while the checkpoint is written.
    pub(super) in_background: bool,
}

impl Manner {
    pub(super) const COMPLETE: Manner = Manner {
        extent: CheckpointExtent::Whole,
        in_background: false,
    };
    pub(super) const PARAMETERS: Manner = Manner {
        extent: CheckpointExtent::Parameters,
        in_background: false,
    };

    /// The same, written in the background.
    pub(super) const fn in_background(self) -> Manner {
        Manner {
            in_background: true,
            ..self
        }
    }
}

/// The result of writing or reading a checkpoint, as reported to hooks.
#[derive(Clone, Copy)]
pub(super) struct CheckpointResult<'a> {
    pub(super) path: &'a Path,
    pub(super) tag: &'a str,
    pub(super) hook: &'a str,
    pub(super) error: &'a str,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

impl<'a> CheckpointResult<'a> {
    pub(super) fn new(path: &'a Path, tag: &'a str, hook: &'a str) -> CheckpointResult<'a> {
        CheckpointResult {
            path,
            tag,
            hook,
            error: "",
            bytes: 0,
            seconds: 0.0,
        }
    }
}
