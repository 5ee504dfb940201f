//! How worker threads share a busy machine with other threads.

/// Sets this thread's policy to `SCHED_BATCH`, under which it does not preempt others when woken.
///
/// Any policy but the system's default was set on purpose and is kept. A worker is woken by the caller. On a machine
/// whose cores are all busy the system would put it on the caller's own core and let it preempt the caller there: it
/// does a unit, and then spins for a region that the preempted caller can't publish. Two training runs side by side on
/// two cores lost 40 % to that. On an idle core it starts as soon as without this policy.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "system calls")]
pub(super) fn wait_for_turn() {
    // SAFETY: both calls concern this thread alone (0); the pointer is to a local variable that outlives the call. A
    // failure changes nothing but the time that regions take.
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
