//! Resources held by a process, and limits on them for a test's process.

/// Resources held by this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::validate) struct Holdings {
    /// Number of open files.
    pub(in crate::validate) files: usize,
    /// Number of threads.
    pub(in crate::validate) threads: usize,
    /// Private memory, in bytes.
    pub(in crate::validate) memory: u64,
}

impl Holdings {
    /// Current values; `None` on systems that don't report them.
    pub(in crate::validate) fn now() -> Option<Holdings> {
        let count = |directory| std::fs::read_dir(directory).ok().map(Iterator::count);
        let text = std::fs::read_to_string("/proc/self/statm").ok()?;
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        let resident = numbers.nth(1)?.ok()?;
        let shared = numbers.next()?.ok()?;
        Some(Holdings {
            files: count("/proc/self/fd")?,
            threads: count("/proc/self/task")?,
            memory: resident.saturating_sub(shared) * PAGE,
        })
    }
}

const PAGE: u64 = 4096;

/// Runs `body` while no file can grow beyond `bytes` bytes, as on a full disk.
#[cfg(target_os = "linux")]
pub(in crate::validate) fn with_full_disk<T>(bytes: u64, body: impl FnOnce() -> T) -> Option<T> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let before = getrlimit(Resource::Fsize);
    // SAFETY: ignoring a signal installs no handler; writes beyond the limit then fail instead of ending the
    // process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let limit = Rlimit {
        current: Some(bytes),
        maximum: before.maximum,
    };
    setrlimit(Resource::Fsize, limit).ok()?;
    let result = body();
    setrlimit(Resource::Fsize, before).ok()?;
    Some(result)
}

/// This system has no such limit.
#[cfg(not(target_os = "linux"))]
pub(in crate::validate) fn with_full_disk<T>(_bytes: u64, _body: impl FnOnce() -> T) -> Option<T> {
    None
}
