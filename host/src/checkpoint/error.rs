//! What can be wrong with a checkpoint.

use std::path::PathBuf;

/// Why a checkpoint can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system does not let it be written.
    #[error("{source}{}", room(*needed, *free))]
    Write {
        /// The system's error, with the path.
        source: std::io::Error,
        /// The bytes that the checkpoint has.
        needed: u64,
        /// The bytes that are free where it should be, where the system says.
        free: Option<u64>,
    },
    /// The run's output directory is gone.
    #[error("{0}")]
    Vanished(String),
    /// It can't be put into files.
    #[error("the checkpoint `{tag}` can't be put into files: {reason}")]
    Form {
        /// Its tag.
        tag: String,
        /// Why.
        reason: String,
    },
    /// There is none.
    #[error("there is no checkpoint `{}`", path.display())]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// It is damaged, was never finished, or is none of ours.
    #[error("`{}` is not a whole checkpoint: {reason}", path.display())]
    Damaged {
        /// Its directory.
        path: PathBuf,
        /// Which file, and what is wrong with it.
        reason: String,
    },
    /// It has no weights of this name.
    #[error("the checkpoint `{}` has no set `{set}`; there are {known}", path.display())]
    Set {
        /// Its directory.
        path: PathBuf,
        /// The name.
        set: String,
        /// The names that there are, for a message.
        known: String,
    },
    /// It is of another version of the format.
    #[error(
        "the checkpoint `{}` has format {found}, this host reads formats {} to {}; it was written by {host}",
        path.display(),
        super::FORMAT,
        super::FORMAT_WITH_MEASURED
    )]
    Format {
        /// Its directory.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The host that wrote it.
        host: String,
    },
}

/// "(it needs 1000 bytes, 10 are free)".
fn room(needed: u64, free: Option<u64>) -> String {
    match free {
        Some(free) => format!(" (the checkpoint needs {needed} bytes, {free} are free)"),
        None => format!(" (the checkpoint needs {needed} bytes)"),
    }
}
