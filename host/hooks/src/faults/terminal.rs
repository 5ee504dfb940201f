//! Restoring the terminal from a full-screen view when a fault ends the process.

use std::sync::OnceLock;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Registers a function that is called before a fault is reported. It runs in signal handlers, so it must not lock
/// or allocate. Only the first registration in a process has an effect.
pub fn before_reports(give_back: fn()) {
    // A second view would register the same function.
    let _ = GIVE_BACK.set(give_back);
}

/// Restores the terminal if a view is using it.
pub(super) fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}
