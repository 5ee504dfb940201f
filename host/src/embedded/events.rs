//! What happens during a run, for the thread that waits for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::log::Level;
use crate::run::Now;

/// A message of the host or of a hook.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its importance.
    pub level: Level,
    /// Name of the hook, or `sconce`.
    pub source: String,
    /// The text, possibly of several lines.
    pub text: String,
}

/// Results of a pass over a phase's data.
#[derive(Clone, Debug)]
pub struct HistoryRow {
    /// Where the run was when the pass ended.
    pub now: Now,
    /// Names and values of the phase's metrics.
    pub metrics: Vec<(String, f64)>,
}

/// What has happened since the last look.
#[derive(Debug, Default)]
pub struct Taken {
    /// Messages, in their order.
    pub messages: Vec<Message>,
    /// Finished passes, in their order.
    pub rows: Vec<HistoryRow>,
    /// Where the run is; none before its first iteration.
    pub now: Option<Now>,
    /// Whether the run has ended.
    pub is_done: bool,
}

/// Messages and progress of a run, written by its thread and taken by another.
#[derive(Debug, Default)]
pub struct Events {
    taken: Mutex<Taken>,
    done: Condvar,
}

impl Events {
    /// Takes what has happened, once the run has ended or `limit` is over.
    pub fn wait(&self, limit: Duration) -> Taken {
        let state = self.lock();
        let waited = self
            .done
            .wait_timeout_while(state, limit, |state| !state.is_done);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Taken {
            messages: std::mem::take(&mut state.messages),
            rows: std::mem::take(&mut state.rows),
            now: state.now,
            is_done: state.is_done,
        }
    }

    /// Says that the run has ended, whichever way.
    pub fn end(&self) {
        self.lock().is_done = true;
        self.done.notify_all();
    }

    /// Adds a message.
    pub(super) fn say(&self, level: Level, source: &str, text: &str) {
        self.lock().messages.push(Message {
            level,
            source: source.to_owned(),
            text: text.to_owned(),
        });
    }

    /// Notes where the run is.
    pub(super) fn at(&self, now: &Now) {
        self.lock().now = Some(*now);
    }

    /// Adds the results of a pass.
    pub(super) fn add(&self, row: HistoryRow) {
        self.lock().rows.push(row);
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
