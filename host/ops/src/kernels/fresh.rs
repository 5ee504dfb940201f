//! Memory that is written once before it is read: no pass over it to fill it with zeros.

use std::mem::{ManuallyDrop, MaybeUninit};

use super::math::Number;

/// Numbers to be written, each at least once.
pub(crate) struct Fresh<T>(Vec<MaybeUninit<T>>);

impl<T: Copy> Fresh<T> {
    /// So many of them.
    pub(crate) fn new(count: usize) -> Fresh<T> {
        let mut numbers = Vec::with_capacity(count);
        numbers.resize_with(count, MaybeUninit::uninit);
        Fresh(numbers)
    }

    /// Where to write them.
    pub(crate) fn places(&mut self) -> &mut [MaybeUninit<T>] {
        &mut self.0
    }

    /// The numbers, to be read and changed where they are.
    ///
    /// # Safety
    ///
    /// All have been written.
    #[expect(unsafe_code, reason = "that all are written is known where they are")]
    pub(crate) unsafe fn all_written(&mut self) -> &mut [T] {
        // SAFETY: by the caller's word.
        unsafe { written(&mut self.0) }
    }

    /// The numbers.
    ///
    /// # Safety
    ///
    /// All have been written.
    #[expect(unsafe_code, reason = "that all are written is known where they are")]
    pub(crate) unsafe fn written(self) -> Vec<T> {
        let mut numbers = ManuallyDrop::new(self.0);
        let (start, count, room) = (numbers.as_mut_ptr(), numbers.len(), numbers.capacity());
        // SAFETY: the parts of a vector whose elements have the same layout, and by the caller's word
        // are numbers.
        unsafe { Vec::from_raw_parts(start.cast::<T>(), count, room) }
    }
}

/// Places filled with zeros: by the thread that goes on with them, while they are in its cache.
pub(crate) fn zeros<T: Number>(places: &mut [MaybeUninit<T>]) -> &mut [T] {
    for place in &mut *places {
        place.write(T::ZERO);
    }
    // SAFETY: they have been written.
    #[expect(unsafe_code, reason = "they are written")]
    unsafe {
        written(places)
    }
}

/// Places as the numbers that were written there.
///
/// # Safety
///
/// All have been written.
#[expect(unsafe_code, reason = "that all are written is known where they are")]
pub(crate) unsafe fn written<T>(places: &mut [MaybeUninit<T>]) -> &mut [T] {
    // SAFETY: of the same layout, and by the caller's word numbers.
    unsafe { &mut *(std::ptr::from_mut(places) as *mut [T]) }
}
