//! Requests from outside the run, such as a key pressed in the live view.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Tag of a checkpoint that was requested from outside.
pub(in crate::run) const BY_KEY: &str = "by-key";

/// Interval at which a paused run checks for signals.
const LOOK: Duration = Duration::from_millis(100);

/// A request to a run, served between two training iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteRequest {
    /// Save a full checkpoint.
    Checkpoint,
    /// Validate.
    Validate,
    /// Give hooks whose libraries have changed their new ones.
    Reload,
    /// Stop training until the pause ends.
    Pause,
    /// End the pause.
    GoOn,
    /// End the training, as a hook's request to stop does.
    Stop,
}

impl RemoteRequest {
    /// Those that all ranks of a run serve.
    const SHARED: [RemoteRequest; 3] = [
        RemoteRequest::Checkpoint,
        RemoteRequest::Validate,
        RemoteRequest::Stop,
    ];

    /// Its number among ranks, if they all serve it.
    pub(in crate::run) fn shared_number(self) -> Option<u8> {
        let place = Self::SHARED.iter().position(|shared| *shared == self)?;
        Some(place as u8)
    }

    pub(in crate::run) fn of_shared_number(number: u8) -> Option<RemoteRequest> {
        Self::SHARED.get(usize::from(number)).copied()
    }

    fn is_of_a_pause(self) -> bool {
        matches!(self, RemoteRequest::Pause | RemoteRequest::GoOn)
    }
}

/// Makes requests of a run, from any thread. Clones refer to the same run.
#[derive(Clone, Debug, Default)]
pub struct Remote(Arc<RemoteState>);

#[derive(Debug, Default)]
struct RemoteState {
    requests: Mutex<VecDeque<RemoteRequest>>,
    /// Whether there are any requests; checked after each iteration.
    is_asked: AtomicBool,
    changed: Condvar,
}

impl Remote {
    /// Adds a request. A request already waiting is not added again, and of pauses and their ends only the
    /// last one counts.
    pub fn ask(&self, wish: RemoteRequest) {
        let mut wishes = self.wishes();
        if wish.is_of_a_pause() {
            wishes.retain(|known| !known.is_of_a_pause());
        }
        if !wishes.contains(&wish) {
            wishes.push_back(wish);
        }
        self.0.is_asked.store(true, Ordering::Release);
        self.0.changed.notify_all();
    }

    /// The requests that have not been started.
    pub fn waiting(&self) -> Vec<RemoteRequest> {
        self.wishes().iter().copied().collect()
    }

    #[inline]
    pub(in crate::run) fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Acquire)
    }

    pub(in crate::run) fn next(&self) -> Option<RemoteRequest> {
        let mut wishes = self.wishes();
        let next = wishes.pop_front();
        self.0.is_asked.store(!wishes.is_empty(), Ordering::Release);
        next
    }

    /// Waits for a request, up to a short limit.
    pub(in crate::run) fn wait(&self) {
        let wishes = self.wishes();
        if wishes.is_empty() {
            // The result doesn't matter: the caller checks again.
            drop(self.0.changed.wait_timeout(wishes, LOOK));
        }
    }

    fn wishes(&self) -> MutexGuard<'_, VecDeque<RemoteRequest>> {
        self.0
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_come_in_their_order_and_once() {
        let remote = Remote::default();
        assert!(!remote.is_asked());
        for wish in [
            RemoteRequest::Validate,
            RemoteRequest::Checkpoint,
            RemoteRequest::Validate,
        ] {
            remote.clone().ask(wish);
        }
        assert!(remote.is_asked());
        assert_eq!(
            remote.waiting(),
            [RemoteRequest::Validate, RemoteRequest::Checkpoint]
        );
        assert_eq!(remote.next(), Some(RemoteRequest::Validate));
        assert!(remote.is_asked());
        assert_eq!(remote.next(), Some(RemoteRequest::Checkpoint));
        assert!(!remote.is_asked());
        assert_eq!(remote.next(), None);
        for wish in [
            RemoteRequest::Pause,
            RemoteRequest::GoOn,
            RemoteRequest::Pause,
        ] {
            remote.ask(wish);
        }
        assert_eq!(remote.waiting(), [RemoteRequest::Pause]);
    }
}
