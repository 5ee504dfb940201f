//! Prefetching of what is processed next while something else keeps the arithmetic units busy.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Prefetches the cache line of an element into the L2 cache.
pub(crate) fn prefetch<T>(element: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching is part of the baseline, and changes nothing but what is in the cache.
    #[expect(unsafe_code, reason = "an instruction that takes a pointer")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(element).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = element;
}

/// Prefetches all cache lines of a stretch.
#[inline]
pub(crate) fn prefetch_all<T>(stretch: &[T]) {
    some_of(&mut &*stretch, usize::MAX);
}

/// Contiguous memory that is prefetched in small numbers of lines, so that the loads of what is computed in between aren't kept waiting: what
/// is read next, and what is written.
pub(crate) struct Ahead<'a, A, B> {
    first: &'a [A],
    second: &'a [B],
    /// Lines that are prefetched at once.
    at_once: usize,
}

impl<'a, A, B> Ahead<'a, A, B> {
    /// Of two stretches, one after the other, evenly over this many calls.
    pub(crate) fn of(first: &'a [A], second: &'a [B], calls: usize) -> Self {
        let lines = size_of_val(first).div_ceil(LINE) + size_of_val(second).div_ceil(LINE);
        Ahead {
            first,
            second,
            at_once: lines.div_ceil(calls.max(1)),
        }
    }

    /// Prefetches the next few lines, if any are left.
    #[inline]
    pub(crate) fn some(&mut self) {
        let done = some_of(&mut self.first, self.at_once);
        some_of(&mut self.second, self.at_once - done);
    }
}

/// Prefetches the first lines of what is left, at most `most`; returns how many.
#[inline]
fn some_of<T>(rest: &mut &[T], most: usize) -> usize {
    let each = LINE / size_of::<T>().clamp(1, LINE);
    let (now, later) = rest.split_at(rest.len().min(most.saturating_mul(each)));
    *rest = later;
    now.iter().step_by(each).for_each(prefetch);
    now.len().div_ceil(each)
}
