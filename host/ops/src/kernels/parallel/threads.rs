//! Number of computing threads: as many as requested, but no more than the process may use.
//!
//! Results depend on the number requested, by which sums are partitioned. How many threads are *started* changes no
//! bit, so a manifest that asks for eight gives the same results on a machine with two cores, where two are started.

use std::sync::OnceLock;

/// Environment variables that candle and the crates below it read when their pools start.
pub const VARIABLES: [&str; 2] = ["CANDLE_NUM_THREADS", "RAYON_NUM_THREADS"];

/// Environment variable: how often an idle thread of candle's own pool checks for work before it sleeps.
pub const SPIN_LIMIT: &str = "CANDLE_BARRIER_POOL_SPIN_LIMIT";

static ASKED: OnceLock<usize> = OnceLock::new();
static MOST: OnceLock<usize> = OnceLock::new();

/// Numbers of threads to compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Number of threads requested, 1 or more.
    pub asked: usize,
    /// Number of processors this process may use, 1 or more: by its affinity and its control group's quota.
    pub usable: usize,
}

impl ThreadCounts {
    /// Number of threads started, the calling one included.
    pub fn started(self) -> usize {
        self.asked.min(self.usable).max(1)
    }
}

/// Requests `count` threads.
///
/// The first request holds for the whole process, and has an effect only before anything is computed.
pub fn ask(count: usize) {
    // A second request comes from the same manifest's task, or too late.
    let _ = ASKED.set(count.max(1));
}

/// Leaves processors to other processes: no more than `count` of those that the process may use are used.
///
/// As for [`ask`], the first call holds, and only before anything is computed.
pub fn use_at_most(count: usize) {
    let _ = MOST.set(count.max(1));
}

/// The number requested, or that of the variables, or as many as the process may use.
pub fn threads() -> ThreadCounts {
    static USABLE: OnceLock<usize> = OnceLock::new();
    let usable = *USABLE.get_or_init(|| {
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        available.min(MOST.get().copied().unwrap_or(usize::MAX))
    });
    let variable = |name: &&str| {
        std::env::var(name)
            .ok()?
            .parse()
            .ok()
            .filter(|count| *count > 0)
    };
    let asked = ASKED.get().copied();
    let asked = asked.or_else(|| VARIABLES.iter().find_map(variable));
    ThreadCounts {
        asked: asked.unwrap_or(usable),
        usable,
    }
}
