//! How many threads compute: as many as are asked for, and no more than the process may use.
//!
//! What a run computes depends on the number that is asked for: sums are cut by it. How many threads are *started* for that
//! changes no bit, so a manifest that asks for eight gives the same results on a machine with two cores, where
//! two are started.

use std::sync::OnceLock;

/// The variables that candle and the crates below it read when their pools start.
pub const VARIABLES: [&str; 2] = ["CANDLE_NUM_THREADS", "RAYON_NUM_THREADS"];

/// How often an idle thread of candle's own pool looks for work before it sleeps.
pub const SPIN_LIMIT: &str = "CANDLE_BARRIER_POOL_SPIN_LIMIT";

static ASKED: OnceLock<usize> = OnceLock::new();

/// Threads to compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// How many are asked for, 1 or more.
    pub asked: usize,
    /// How many processors this process may use, 1 or more: of its affinity, and of its group's quota.
    pub usable: usize,
}

impl Threads {
    /// How many are started, the calling one included.
    pub fn started(self) -> usize {
        self.asked.min(self.usable).max(1)
    }
}

/// Asks for that many threads. The first request holds for the whole process, and only before
/// anything is computed.
pub fn ask(count: usize) {
    // A second request is for the same manifest's task, or too late.
    let _ = ASKED.set(count.max(1));
}

/// What was asked for; else what the variables say, and else as many as the process may use.
pub fn threads() -> Threads {
    static USABLE: OnceLock<usize> = OnceLock::new();
    let usable =
        *USABLE.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
    let variable = |name: &&str| {
        std::env::var(name)
            .ok()?
            .parse()
            .ok()
            .filter(|count| *count > 0)
    };
    let asked = ASKED.get().copied();
    let asked = asked.or_else(|| VARIABLES.iter().find_map(variable));
    Threads {
        asked: asked.unwrap_or(usable),
        usable,
    }
}
