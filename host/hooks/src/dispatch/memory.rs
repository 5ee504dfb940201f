//! Memory held by plugins: bytes allocated by the C library's allocator.
//!
//! Plugins allocate there, while the host's binary has its own allocator, so changes around a call
//! are the plugin's.

/// Bytes that the C library's allocator has handed out and not got back, if it says.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn in_use() -> Option<i64> {
    use std::sync::OnceLock;

    use libloading::os::unix::Library;

    /// Looked up at run time, not linked: C libraries before 2.33 lack it.
    static REPORTED_GROWTH: OnceLock<Option<unsafe extern "C" fn() -> libc::mallinfo2>> =
        OnceLock::new();
    let tell = (*REPORTED_GROWTH.get_or_init(|| {
        // SAFETY: the function's type is the one that the C library documents for this symbol.
        let found = unsafe { Library::this().get(b"mallinfo2\0") };
        found.ok().map(|function| *function)
    }))?;
    // SAFETY: `mallinfo2` takes no arguments and only reads the allocator's statistics.
    let told = unsafe { tell() };
    i64::try_from(told.uordblks + told.hblkhd).ok()
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn in_use() -> Option<i64> {
    None
}
