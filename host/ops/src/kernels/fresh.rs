//! Uninitialised memory that is written before it is read, which saves a pass to fill it with zeros.

use std::mem::{ManuallyDrop, MaybeUninit};

use super::math::Number;

/// Uninitialised elements, each of which is to be written at least once.
pub(crate) struct UninitBuffer<T>(Vec<MaybeUninit<T>>);

impl<T: Copy> UninitBuffer<T> {
    /// Allocates `count` uninitialised elements.
    pub(crate) fn new(count: usize) -> UninitBuffer<T> {
        let mut numbers = Vec::with_capacity(count);
        numbers.resize_with(count, MaybeUninit::uninit);
        poison::fill(&mut numbers);
        UninitBuffer(numbers)
    }

    /// The elements, to be written to.
    pub(crate) fn places(&mut self) -> &mut [MaybeUninit<T>] {
        &mut self.0
    }

    /// The initialised elements, in place.
    ///
    /// # Safety
    ///
    /// All elements have been written.
    #[expect(unsafe_code, reason = "that all are written is known where they are")]
    pub(crate) unsafe fn all_written(&mut self) -> &mut [T] {
        // SAFETY: all elements have been written, by this function's contract.
        unsafe { written(&mut self.0) }
    }

    /// The initialised elements, as a vector without a copy.
    ///
    /// # Safety
    ///
    /// All elements have been written.
    #[expect(unsafe_code, reason = "that all are written is known where they are")]
    pub(crate) unsafe fn written(self) -> Vec<T> {
        poison::check(&self.0);
        let mut numbers = ManuallyDrop::new(self.0);
        let (start, count, room) = (numbers.as_mut_ptr(), numbers.len(), numbers.capacity());
        // SAFETY: pointer, length and capacity are those of a vector that is never dropped; `MaybeUninit<T>` has the
        // layout of `T`, and by this function's contract all elements have been written.
        unsafe { Vec::from_raw_parts(start.cast::<T>(), count, room) }
    }
}

/// Fills memory with zeros, on the thread that uses it next, so that it is in its cache.
pub(crate) fn zeros<T: Number>(places: &mut [MaybeUninit<T>]) -> &mut [T] {
    for place in &mut *places {
        place.write(T::ZERO);
    }
    // SAFETY: the loop has written every element.
    #[expect(unsafe_code, reason = "they are written")]
    unsafe {
        written(places)
    }
}

/// Written memory as initialised elements (`assume_init`).
///
/// # Safety
///
/// All elements have been written.
#[expect(unsafe_code, reason = "that all are written is known where they are")]
pub(crate) unsafe fn written<T>(places: &mut [MaybeUninit<T>]) -> &mut [T] {
    poison::check(places);
    // SAFETY: `MaybeUninit<T>` has the layout of `T`, and by this function's contract all elements have been written.
    unsafe { &mut *(std::ptr::from_mut(places) as *mut [T]) }
}

/// Detection of elements that were never written, in builds with debug assertions.
///
/// Uninitialised elements are filled with a NaN whose payload no operation produces. Arithmetic keeps it, so a result
/// computed from such an element is detected too.
#[cfg(debug_assertions)]
mod poison {
    use std::mem::MaybeUninit;

    const POISON: [u8; 4] = 0xfff5_5eed_u32.to_ne_bytes();

    fn bytes<T>(places: &mut [MaybeUninit<T>]) -> &mut [MaybeUninit<u8>] {
        let length = size_of_val(places);
        // SAFETY: pointer and length are those of `places`, mutably borrowed for as long; any byte, initialised or not,
        // is a valid `MaybeUninit<u8>`.
        #[expect(unsafe_code, reason = "elements of any type as bytes")]
        unsafe {
            std::slice::from_raw_parts_mut(places.as_mut_ptr().cast(), length)
        }
    }

    pub(super) fn fill<T>(places: &mut [MaybeUninit<T>]) {
        for (byte, poison) in bytes(places).iter_mut().zip(POISON.iter().cycle()) {
            byte.write(*poison);
        }
    }

    /// Panics if an element of four or eight bytes still has the value that [`fill`] gave it.
    pub(super) fn check<T>(places: &[MaybeUninit<T>]) {
        let size = size_of::<T>();
        if size != 4 && size != 8 {
            return;
        }
        // SAFETY: pointer and length are those of `places`, and every byte is initialised: by `fill`, or by what was
        // written since.
        #[expect(unsafe_code, reason = "elements of any type as bytes")]
        let bytes: &[u8] =
            unsafe { std::slice::from_raw_parts(places.as_ptr().cast(), size_of_val(places)) };
        let is_poison = |element: &[u8]| element.chunks(4).all(|half| half == POISON);
        if let Some(index) = bytes.chunks(size).position(is_poison) {
            panic!("element {index} of {} was never written", places.len());
        }
    }
}

#[cfg(not(debug_assertions))]
mod poison {
    use std::mem::MaybeUninit;

    #[inline]
    pub(super) fn fill<T>(_places: &mut [MaybeUninit<T>]) {}

    #[inline]
    pub(super) fn check<T>(_places: &[MaybeUninit<T>]) {}
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "element 2 of 3 was never written")]
    #[expect(unsafe_code, reason = "what must not be done")]
    fn an_element_that_was_never_written_is_noticed() {
        let mut numbers = UninitBuffer::<f32>::new(3);
        for place in &mut numbers.places()[..2] {
            place.write(0.0);
        }
        // SAFETY: one element is never written, but the check panics before any is read as `f32`.
        unsafe { numbers.written() };
    }
}
