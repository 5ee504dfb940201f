//! The time that a rank waits for the others.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::exit;

/// How often is looked whether the time is over.
const INTERVAL: Duration = Duration::from_millis(500);

/// Ends the process if a wait takes longer than a limit.
#[derive(Debug)]
pub(super) struct Patience {
    since: Arc<Mutex<Option<Waiting>>>,
}

/// A wait in progress.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    doing: &'static str,
}

/// A wait, which ends when this value is dropped.
pub(super) struct Wait<'a>(&'a Patience);

impl Patience {
    /// Watches from now on, in a thread that ends with this value.
    pub(super) fn new(limit: Duration, rank: usize, host: &str) -> Patience {
        let since = Arc::default();
        let watched = Arc::downgrade(&since);
        let name = format!("rank {rank} ({host})");
        let watch = move || watch(&watched, limit, &name);
        // Without a thread, ranks wait for ever: the launcher's limits still hold.
        drop(thread::Builder::new().name("ranks".to_owned()).spawn(watch));
        Patience { since }
    }

    /// Begins a wait.
    pub(super) fn wait(&self, doing: &'static str) -> Wait<'_> {
        self.set(Some(Waiting {
            since: Instant::now(),
            doing,
        }));
        Wait(self)
    }

    fn set(&self, waiting: Option<Waiting>) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = waiting;
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

fn watch(watched: &Weak<Mutex<Option<Waiting>>>, limit: Duration, name: &str) {
    loop {
        thread::sleep(INTERVAL.min(limit));
        let Some(since) = watched.upgrade() else {
            return;
        };
        let waiting = since.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiting) = waiting.as_ref() else {
            continue;
        };
        if waiting.since.elapsed() > limit {
            let text = format!(
                "error: {name} has waited {} s for the other ranks, {}: one of them hangs or is much slower \
                 (`distributed.timeout` is the limit)\n",
                limit.as_secs_f64(),
                waiting.doing
            );
            crate::faults::end_at_once(&text, exit::HANG);
        }
    }
}
