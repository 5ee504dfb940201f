//! Time limit for calls that wait for other ranks, of transports and of NCCL.
//!
//! A transport may have a limit of its own; MPI and NCCL have none, so that a rank would wait for ever for one that hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::faults;

/// Added to the limit, so that a transport with one of its own reports what it waited for.
const GRACE: Duration = Duration::from_secs(2);

/// A call that has come back.
pub(in crate::team) struct Called<T> {
    pub(in crate::team) result: T,
    /// Whether it took as long as the limit: if it has failed, then because a rank was waited for in vain.
    pub(super) is_late: bool,
}

/// Watches one call after another; ends the process if one takes too long.
#[derive(Debug)]
pub(in crate::team) struct Waiting {
    /// Milliseconds since the start of the watch at which the call under way began, plus 1; 0 between calls.
    since: Arc<AtomicU64>,
    begin: Instant,
    limit: Duration,
    /// Dropped at the end, which ends the thread.
    _end: Option<Sender<()>>,
}

impl Waiting {
    /// Starts to watch a rank, described by `who`.
    pub(in crate::team) fn start(who: String, limit: Duration) -> Waiting {
        let since = Arc::new(AtomicU64::new(0));
        let watched = Arc::clone(&since);
        let begin = Instant::now();
        let (end, ended) = mpsc::channel();
        let allowed = limit.saturating_add(GRACE);
        let look = (limit / 4).clamp(Duration::from_millis(50), Duration::from_secs(1));
        // Without a thread there is no limit, but the run works.
        let watch = thread::Builder::new().name("ranks".to_owned()).spawn(move || {
            while ended.recv_timeout(look) == Err(RecvTimeoutError::Timeout) {
                let since = watched.load(Ordering::Relaxed);
                let waited = elapsed(begin).saturating_sub(since);
                if since != 0 && u128::from(waited) > allowed.as_millis() {
                    faults::end_hung(&format!(
                        "error: {who} has waited for other ranks for {} s (`distributed.timeout`)\n",
                        limit.as_secs_f64()
                    ));
                }
            }
        });
        Waiting {
            since,
            begin,
            limit,
            _end: watch.is_ok().then_some(end),
        }
    }

    /// Makes a call, within the limit.
    pub(in crate::team) fn during<T>(&self, call: impl FnOnce() -> T) -> Called<T> {
        let begin = Instant::now();
        self.since.store(elapsed(self.begin), Ordering::Relaxed);
        let result = call();
        self.since.store(0, Ordering::Relaxed);
        Called {
            result,
            is_late: begin.elapsed() >= self.limit,
        }
    }
}

fn elapsed(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
}
