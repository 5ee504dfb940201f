//! Whether a thread is inside a parallel region.

use std::cell::Cell;

thread_local! {
    /// Whether this thread is inside a region: what begins another one there does it alone, since
    /// the pool can't be entered twice.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is inside a parallel region, in which it begins no other.
pub(super) fn is_inside() -> bool {
    INSIDE.get()
}

/// Makes everything that the calling thread does part of a region: a pool's own thread begins none.
pub(super) fn enter_for_ever() {
    INSIDE.set(true);
}

/// Marks the calling thread as inside a parallel region until it is dropped.
/// Marks the thread while it is inside a region.
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
