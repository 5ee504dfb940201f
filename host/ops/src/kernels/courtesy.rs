//! How worker threads share a busy machine with others.

/// Has the system run this thread in turn with others rather than at once when it is woken (`SCHED_BATCH` on
/// Linux), unless its scheduling was chosen by somebody else.
///
/// A worker is woken by the caller. On a machine whose cores are all busy the system would put it on the caller's
/// own core, and let it interrupt the caller there: it does a unit, and then spins for a region that the interrupted
/// caller can't publish. Two trainings side by side on two cores lost 40 % to that. Where a core is idle it begins
/// there as soon as otherwise.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "system calls")]
pub(super) fn wait_for_turn() {
    // SAFETY: both take this thread and plain values, and change nothing else. A failure leaves everything as it
    // was, and costs no more than time.
    unsafe {
        if libc::sched_getscheduler(0) == libc::SCHED_OTHER {
            let priority = libc::sched_param { sched_priority: 0 };
            libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const priority);
        }
    }
}

/// Other systems have no such policy.
#[cfg(not(target_os = "linux"))]
pub(super) fn wait_for_turn() {}
