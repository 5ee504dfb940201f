//! How much memory plugins hold: what the C library's allocator has given out.
//!
//! Plugins take memory there; the host's binary has an allocator of its own, so that what changes
//! around a call is the plugin's doing.

/// The bytes that the C library's allocator has given out and not got back, where it tells.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn in_use() -> Option<i64> {
    use std::sync::OnceLock;

    use libloading::os::unix::Library;

    /// Not linked to: C libraries before 2.33 lack it.
    static TELL: OnceLock<Option<unsafe extern "C" fn() -> libc::mallinfo2>> = OnceLock::new();
    let tell = (*TELL.get_or_init(|| {
        // SAFETY: the function's type is that of the C library's documentation.
        let found = unsafe { Library::this().get(b"mallinfo2\0") };
        found.ok().map(|function| *function)
    }))?;
    // SAFETY: takes nothing and only reads.
    let told = unsafe { tell() };
    i64::try_from(told.uordblks + told.hblkhd).ok()
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn in_use() -> Option<i64> {
    None
}
