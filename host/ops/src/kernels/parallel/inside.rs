//! Whether a thread is inside a parallel region.

use std::cell::Cell;

thread_local! {
    /// Whether this thread is inside a region.
    ///
    /// A region started there runs on this thread alone, since the pool can't be entered twice.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is inside a parallel region, where it must not enter the pool.
pub(super) fn is_inside() -> bool {
    INSIDE.get()
}

/// Marks the calling thread as inside a region for good: the pool's workers never start one.
pub(super) fn enter_for_ever() {
    INSIDE.set(true);
}

/// Marks the calling thread as inside a parallel region until it is dropped.
pub(super) struct Inside(bool);

impl Inside {
    pub(super) fn enter() -> Inside {
        Inside(INSIDE.replace(true))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}
