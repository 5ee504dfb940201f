//! Errors of a run on several ranks.

use super::TransportError;
use crate::exit;

/// Reason why ranks can't go on together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TeamError {
    /// No bytes can be moved any more: a rank is gone, or the network is.
    #[error("the ranks have lost each other: {0}")]
    Transport(#[from] TransportError),
    /// Gradients can't be moved between the ranks' GPUs any more.
    #[error("{rank}: {problem}")]
    Gpus {
        /// This rank, with its machine.
        rank: String,
        /// What has failed, and what to do.
        problem: String,
    },
    /// Another rank has failed.
    #[error("rank {rank} ({host}): {message}")]
    Rank {
        /// Its number.
        rank: usize,
        /// The machine that it runs on.
        host: String,
        /// The exit code that it ends with.
        code: u8,
        /// Its error.
        message: String,
    },
    /// Ranks are at different places of the run, or have different parameters.
    #[error("{0}")]
    Apart(String),
}

impl TeamError {
    /// The exit code of this error, if it has one of its own: that of another rank's error, or that of waiting in vain.
    pub fn code(&self) -> Option<u8> {
        match self {
            TeamError::Rank { code, .. } => Some(*code),
            TeamError::Transport(error) if error.is_late => Some(exit::HANG),
            _ => None,
        }
    }
}
