//! Copies of this process: workers of a `DataLoader` are.
//!
//! A copy has one thread of its parent's: what waits for another would wait for ever, and files belong to the parent. Hooks know by the
//! generation of the process that has started them whether they are called in a copy.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);
static WATCHED: Once = Once::new();

/// The generation of this process: that of its parent, and one more.
pub(super) fn generation() -> u64 {
    WATCHED.call_once(|| {
        // SAFETY: the handler only stores a number, which is allowed in the child of a process with several threads.
        unsafe { libc::pthread_atfork(None, None, Some(in_copy)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn in_copy() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
