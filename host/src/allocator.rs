//! How the program's allocator treats memory that was freed.

/// Milliseconds for which freed memory is kept; ten times as long where it is large.
///
/// A training step frees what the next one allocates again. By default, memory is returned to the kernel after 10 ms, 100 ms where it is large, which
/// steps of convolutions take: their system time was a quarter of all, and is a tenth so.
#[cfg(feature = "mimalloc")]
const KEPT: std::ffi::c_long = 1_000;

/// mimalloc's `mi_option_purge_delay`, which its bindings don't name.
#[cfg(feature = "mimalloc")]
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Has freed memory be kept for the next step, unless the environment variable `MIMALLOC_PURGE_DELAY` says otherwise.
#[cfg(feature = "mimalloc")]
pub(crate) fn keep_freed_memory() {
    // SAFETY: the number is that of an option in all versions of mimalloc from 2 on, and any value is allowed. It is the program's start:
    // options may be set by one thread at a time.
    #[expect(unsafe_code, reason = "the allocator is in C")]
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, KEPT);
    }
}

#[cfg(not(feature = "mimalloc"))]
pub(crate) fn keep_freed_memory() {}
