//! The processes of a launch.

use std::process::{Child, ExitStatus};

use rustix::process::Signal;

use crate::cli::process::passed_on;

/// The processes, by rank.
#[derive(Default)]
pub(super) struct Ranks(pub(super) Vec<Rank>);

pub(super) struct Rank {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Rank {
    pub(super) fn of(child: Child) -> Rank {
        Rank { child, ended: None }
    }
}

impl Ranks {
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn are_running(&self) -> bool {
        self.0.iter().any(|rank| rank.ended.is_none())
    }

    /// The ranks that have ended with exit code 0.
    pub(super) fn successful(&self) -> impl Iterator<Item = (usize, ExitStatus)> {
        let ended = self.0.iter().enumerate();
        let ended = ended.filter_map(|(number, rank)| Some((number, rank.ended?)));
        ended.filter(|(_, status)| status.success())
    }

    /// Sends a signal to all that still run.
    pub(super) fn signal(&self, signal: Signal) {
        for rank in self.0.iter().filter(|rank| rank.ended.is_none()) {
            passed_on::send(&rank.child, signal);
        }
    }

    /// The ranks that have ended since the last time: of those found at the same time, one that was killed failed before those
    /// that noticed.
    pub(super) fn newly_ended(&mut self) -> Vec<(usize, ExitStatus)> {
        use std::os::unix::process::ExitStatusExt;

        let mut ended = Vec::new();
        for (number, rank) in self.0.iter_mut().enumerate() {
            if rank.ended.is_none()
                && let Ok(Some(status)) = rank.child.try_wait()
            {
                rank.ended = Some(status);
                ended.push((number, status));
            }
        }
        ended.sort_by_key(|(number, status)| (status.signal().is_none(), *number));
        ended
    }

    pub(super) fn wait_for_all(&mut self) {
        for rank in &mut self.0 {
            rank.ended = rank.child.wait().ok();
        }
    }
}
