//! How a checkpoint is saved, and how that went.

use std::path::Path;

/// The tag of the checkpoint of a run that a signal ended.
pub(super) const INTERRUPTED: &str = "interrupted";

/// The tag of the checkpoint of a run that an error ended.
pub(super) const FAILED: &str = "failed";

/// How much goes into a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Everything that a run needs to go on.
    Whole,
    /// The parameters and buffers.
    Parameters,
}

/// How a checkpoint is to be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    pub(super) extent: Extent,
    /// Whether the training goes on while it is written.
    pub(super) in_background: bool,
}

impl Manner {
    pub(super) const WHOLE: Manner = Manner {
        extent: Extent::Whole,
        in_background: false,
    };
    pub(super) const PARAMETERS: Manner = Manner {
        extent: Extent::Parameters,
        in_background: false,
    };

    /// The same, written while the training goes on.
    pub(super) const fn in_background(self) -> Manner {
        Manner {
            in_background: true,
            ..self
        }
    }
}

/// How writing or reading a checkpoint went, as hooks are told.
pub(super) struct Told<'a> {
    pub(super) path: &'a Path,
    pub(super) tag: &'a str,
    pub(super) hook: &'a str,
    pub(super) error: &'a str,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

impl<'a> Told<'a> {
    pub(super) fn new(path: &'a Path, tag: &'a str, hook: &'a str) -> Told<'a> {
        Told {
            path,
            tag,
            hook,
            error: "",
            bytes: 0,
            seconds: 0.0,
        }
    }
}
