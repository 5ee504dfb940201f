//! Errors of reading and writing checkpoints.

use std::path::PathBuf;

/// Reason why a checkpoint can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file system refused to write it.
    #[error("{source}{}", room(*needed, *free))]
    Write {
        /// I/O error, with the path.
        source: std::io::Error,
        /// Size of the checkpoint in bytes.
        needed: u64,
        /// Bytes free in its directory, if the system says.
        free: Option<u64>,
    },
    /// The run's output directory is gone.
    #[error("{0}")]
    Vanished(String),
    /// It can't be serialised.
    #[error("the checkpoint `{tag}` can't be put into files: {reason}")]
    Form {
        /// Tag of the checkpoint.
        tag: String,
        /// Reason.
        reason: String,
    },
    /// The checkpoint does not exist.
    #[error("there is no checkpoint `{}`", path.display())]
    Missing {
        /// Path where it should be.
        path: PathBuf,
    },
    /// It is damaged, was never finished, or is not a checkpoint of this program.
    #[error("`{}` is not a whole checkpoint: {reason}", path.display())]
    Damaged {
        /// Directory of the checkpoint.
        path: PathBuf,
        /// The file and what is wrong with it.
        reason: String,
    },
    /// It has no set of weights of this name.
    #[error("the checkpoint `{}` has no set `{set}`; there are {known}", path.display())]
    Set {
        /// Directory of the checkpoint.
        path: PathBuf,
        /// The requested name.
        set: String,
        /// Names of the existing sets, for the message.
        known: String,
    },
    /// It has adapters, and not the model that they were trained beside.
    #[error(
        "the checkpoint `{}` has adapters, and not the model that they were trained beside: a run resumes from it; `sconce merge` \
         writes a whole model from the run's results",
        path.display()
    )]
    AdaptersAlone {
        /// Directory of the checkpoint.
        path: PathBuf,
    },
    /// Its format has another version.
    #[error(
        "the checkpoint `{}` has format {found}, this host reads {}; it was written by {host}",
        path.display(),
        super::FORMAT
    )]
    Format {
        /// Directory of the checkpoint.
        path: PathBuf,
        /// Version found.
        found: u32,
        /// Host that wrote it.
        host: String,
    },
}

/// Formats the space needed and available: "(the checkpoint needs 1000 bytes, 10 are free)".
fn room(needed: u64, free: Option<u64>) -> String {
    match free {
        Some(free) => format!(" (the checkpoint needs {needed} bytes, {free} are free)"),
        None => format!(" (the checkpoint needs {needed} bytes)"),
    }
}
