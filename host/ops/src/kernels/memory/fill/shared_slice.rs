//! A slice that several threads write to.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// A slice whose disjoint parts are written by several threads.
pub(crate) struct SharedSlice<'a, T> {
    pub(super) start: *mut T,
    pub(super) length: usize,
    pub(super) lifetime: PhantomData<&'a mut [T]>,
}

// SAFETY: elements are reached only through `part`, whose contract keeps live parts disjoint, and through raw pointers.
// `T: Send`, so other threads may write them.
#[expect(unsafe_code, reason = "threads write to parts of one slice")]
unsafe impl<T: Send> Sync for SharedSlice<'_, T> {}

impl<'a, T> SharedSlice<'a, T> {
    /// Wraps a slice, which stays mutably borrowed.
    pub(crate) fn new(slice: &'a mut [T]) -> SharedSlice<'a, T> {
        SharedSlice {
            start: slice.as_mut_ptr(),
            length: slice.len(),
            lifetime: PhantomData,
        }
    }

    /// Wraps a slice as what code takes that writes new memory, too; through it, elements stay initialised.
    pub(crate) fn written(slice: &'a mut [T]) -> SharedSlice<'a, MaybeUninit<T>> {
        SharedSlice {
            start: slice.as_mut_ptr().cast(),
            length: slice.len(),
            lifetime: PhantomData,
        }
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Pointer to the start of a range, which must lie inside the slice.
    pub(crate) fn slots(&self, range: Range<usize>) -> *mut T {
        let fits = range.start <= range.end && range.end <= self.length;
        assert!(fits, "a part reaches beyond its slice");
        self.slot(range.start)
    }

    /// Pointer to an element, or to the end of the slice.
    pub(super) fn slot(&self, index: usize) -> *mut T {
        self.start.wrapping_add(index)
    }

    /// A part of the slice.
    ///
    /// # Panics
    ///
    /// If it reaches beyond the slice.
    ///
    /// # Safety
    ///
    /// None of its elements is in another live part, and the part does not outlive the slice.
    #[expect(unsafe_code, reason = "the caller knows that parts are disjoint")]
    pub(crate) unsafe fn part<'p>(&self, range: Range<usize>) -> &'p mut [T] {
        let length = range.len();
        // SAFETY: `slots` has checked that the range lies inside the slice, and by this function's contract no other
        // live part overlaps it.
        unsafe { std::slice::from_raw_parts_mut(self.slots(range), length) }
    }
}
