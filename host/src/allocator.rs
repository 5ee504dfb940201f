//! How long the program's allocator keeps memory that was freed, before it returns it to the kernel.
//!
//! By default, that is 10 ms, and 100 ms where it is large. What is free when the time is up goes at once, in the middle of a step too,
//! which soon allocates it again: it comes back a small page at a time instead of huge ones. While data are read, on the other hand, what is
//! kept adds to the peak of memory.

/// Milliseconds while data are read, ten times as many where memory is large.
#[cfg(feature = "mimalloc")]
const KEPT: std::ffi::c_long = 1_000;

/// Milliseconds from the first step on: an hour, and ten where it is large. After a second, steps of `vit`, `gpt-8x256` and `resnet18`
/// took 8 % longer than without, at the same peak of memory.
#[cfg(feature = "mimalloc")]
const KEPT_BY_STEPS: std::ffi::c_long = 3_600_000;

/// mimalloc's `mi_option_purge_delay`, which its bindings don't name.
#[cfg(feature = "mimalloc")]
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// The environment variable that says otherwise.
#[cfg(feature = "mimalloc")]
const VARIABLE: &str = "MIMALLOC_PURGE_DELAY";

/// Keeps freed memory for a moment.
#[cfg(feature = "mimalloc")]
pub(crate) fn keep_freed_memory() {
    // SAFETY: the number is that of an option in all versions of mimalloc from 2 on, and any value is allowed. Of other threads, one that
    // frees memory reads the option, a single word, and may act by either value.
    #[expect(unsafe_code, reason = "the allocator is in C")]
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, KEPT);
    }
}

/// Returns to the kernel what has been freed so far, and keeps for the next step, in training or not, what is freed from now on.
#[cfg(feature = "mimalloc")]
pub(crate) fn keep_memory_for_steps() {
    collect_and_keep(KEPT_BY_STEPS);
}

/// Returns what has been freed so far, by this thread or by those that have ended, and keeps what is freed from now on for these
/// milliseconds, unless the environment variable says otherwise.
#[cfg(feature = "mimalloc")]
fn collect_and_keep(milliseconds: std::ffi::c_long) {
    if std::env::var_os(VARIABLE).is_some() {
        return;
    }
    // SAFETY: as above.
    #[expect(unsafe_code, reason = "the allocator is in C")]
    unsafe {
        libmimalloc_sys::mi_collect(true);
        libmimalloc_sys::mi_option_set(PURGE_DELAY, milliseconds);
    }
}

#[cfg(not(feature = "mimalloc"))]
pub(crate) fn keep_freed_memory() {}

#[cfg(not(feature = "mimalloc"))]
pub(crate) fn keep_memory_for_steps() {}

/// In a program that does other things afterwards: keeps memory for steps as long as this is there, then returns it.
pub(crate) struct StepMemory(());

impl StepMemory {
    pub(crate) fn keep() -> StepMemory {
        keep_memory_for_steps();
        StepMemory(())
    }
}

impl Drop for StepMemory {
    fn drop(&mut self) {
        #[cfg(feature = "mimalloc")]
        collect_and_keep(KEPT);
    }
}

#[cfg(all(test, feature = "mimalloc"))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_for_steps_until_the_training_ends() {
        // SAFETY: the number is that of an option in all versions of mimalloc from 2 on.
        #[expect(unsafe_code, reason = "the allocator is in C")]
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        keep_freed_memory();
        assert_eq!(delay(), KEPT);
        let steps = StepMemory::keep();
        assert_eq!(delay(), KEPT_BY_STEPS);
        drop(steps);
        assert_eq!(delay(), KEPT);
    }
}
