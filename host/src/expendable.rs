//! Setup of child processes in which plugins are tried: they can be killed at any time without affecting other
//! processes.

/// Makes this process end with its parent, limits its memory and turns core dumps off.
#[cfg(target_os = "linux")]
pub(crate) fn settle_in() {
    use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

    // Allocations beyond this limit fail instead of exhausting the machine's memory.
    const MOST_MEMORY: u64 = 16 << 30;

    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    for (what, limit) in [(Resource::Core, 0), (Resource::As, MOST_MEMORY)] {
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        let _ = setrlimit(what, limit);
    }
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // std's handlers for stack overflows would swallow a raised signal.
        // SAFETY: SIG_DFL installs no handler that could run, and the process has one thread at
        // this point.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
