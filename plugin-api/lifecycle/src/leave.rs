//! Reasons to leave the loops in progress.

/// A reason to leave the loops in progress; returned as an error, so that `?` leaves them.
#[derive(Debug)]
pub enum Leave<E> {
    /// A hook has rolled the run back to a checkpoint: training continues at the position found there.
    RolledBack,
    /// The run ends early, after a checkpoint has been saved.
    Interrupted,
    /// The run has failed.
    Failed(E),
}

impl<E> Leave<E> {
    /// The error of a run that was left, if it failed. An interruption is not an error.
    pub fn error(self) -> Option<E> {
        match self {
            Leave::RolledBack | Leave::Interrupted => None,
            Leave::Failed(error) => Some(error),
        }
    }
}

impl<E> From<E> for Leave<E> {
    fn from(error: E) -> Self {
        Leave::Failed(error)
    }
}
