//! How a view that has the terminal gives it back when the process ends within a fault.

use std::sync::OnceLock;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Has `give_back` called before a fault is reported. It runs in signal handlers: it must take no lock and allocate
/// nothing. Only the first call of a process counts.
pub(crate) fn before_reports(give_back: fn()) {
    // A second view has the same function.
    let _ = GIVE_BACK.set(give_back);
}

/// Gives the terminal back, where a view has it.
pub(super) fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}
