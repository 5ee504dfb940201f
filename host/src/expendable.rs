//! Child processes in which plugins are tried: they may be ended at any time, and what they do harms no other.

/// Makes this process one that can be ended, and that harms nobody beside itself.
#[cfg(target_os = "linux")]
pub(crate) fn settle_in() {
    use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

    // What a hook asks of memory beyond this is refused, rather than taken from everybody.
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
        // std's handlers for stack overflows would let a raised signal pass.
        // SAFETY: the default action, on the only thread.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
