//! Setup of child processes in which plugins are tried: they can be killed at any time without affecting other
//! processes.

/// Makes this process end with its parent, limits its memory and turns core dumps off.
#[cfg(target_os = "linux")]
pub fn settle_in() {
    use rustix::process::Resource;

    // Allocations beyond this limit fail instead of exhausting the machine's memory.
    const MOST_MEMORY: u64 = 16 << 30;

    settle_in_without_limit();
    limit(Resource::As, MOST_MEMORY);
}

/// Limits a resource of this process for good.
#[cfg(target_os = "linux")]
fn limit(what: rustix::process::Resource, limit: u64) {
    let limit = rustix::process::Rlimit {
        current: Some(limit),
        maximum: Some(limit),
    };
    let _ = rustix::process::setrlimit(what, limit);
}

/// Makes this process end with its parent, and turns core dumps off.
#[cfg(target_os = "linux")]
pub(crate) fn settle_in_without_limit() {
    use rustix::process::{Resource, Signal, set_parent_process_death_signal};

    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    limit(Resource::Core, 0);
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // std's handlers for stack overflows would swallow a raised signal.
        // SAFETY: SIG_DFL installs no handler that could run, and the process has one thread at
        // this point.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
