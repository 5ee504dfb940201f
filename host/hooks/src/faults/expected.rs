//! Ends of the process that the host itself brings about, which are not a hook's fault.

use std::sync::atomic::{AtomicBool, Ordering};

static IS_EXPECTED: AtomicBool = AtomicBool::new(false);

/// Announces that library code will end this process by `exit`: it is not reported as a crash.
pub fn expect_exit() {
    IS_EXPECTED.store(true, Ordering::SeqCst);
}

/// Whether the process is about to end on purpose.
#[cfg(target_os = "linux")]
pub(super) fn is_expected() -> bool {
    IS_EXPECTED.load(Ordering::SeqCst)
}
