//! Uninitialised memory that is written before it is read, which saves a pass to fill it with zeros.
//!
//! That memory has been written is shown by an initialised slice of the same elements: the functions here take
//! uninitialised slots and hand back such a slice, so that only they have to know what was written.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Range;

use crate::kernels::math::Number;

/// Uninitialised elements, each of which is to be written at least once.
pub(crate) struct UninitBuffer<T>(Vec<MaybeUninit<T>>);

impl<T: Copy> UninitBuffer<T> {
    /// Allocates `count` uninitialised elements.
    pub(crate) fn new(count: usize) -> UninitBuffer<T> {
        let mut slots = Vec::with_capacity(count);
        slots.resize_with(count, MaybeUninit::uninit);
        poison::fill(&mut slots);
        UninitBuffer(slots)
    }

    /// The elements, to be written to.
    pub(crate) fn slots(&mut self) -> &mut [MaybeUninit<T>] {
        &mut self.0
    }

    /// The initialised elements, as a vector without a copy.
    ///
    /// # Safety
    ///
    /// All elements have been written.
    #[expect(unsafe_code, reason = "that all are written is known where they are")]
    pub(crate) unsafe fn written(self) -> Vec<T> {
        poison::check(&self.0);
        let mut slots = ManuallyDrop::new(self.0);
        let (start, count, room) = (slots.as_mut_ptr(), slots.len(), slots.capacity());
        // SAFETY: pointer, length and capacity are those of a vector that is never dropped; `MaybeUninit<T>` has the
        // layout of `T`, and by this function's contract all elements have been written.
        unsafe { Vec::from_raw_parts(start.cast::<T>(), count, room) }
    }
}

/// Fills memory with zeros, on the thread that uses it next, so that it is in its cache.
pub(crate) fn zeros<T: Number>(slots: &mut [MaybeUninit<T>]) -> &mut [T] {
    for slot in &mut *slots {
        slot.write(T::ZERO);
    }
    // SAFETY: the loop has written every element.
    #[expect(unsafe_code, reason = "they are written")]
    unsafe {
        written(slots)
    }
}

/// Writes every element, from an iterator that has at least as many.
#[inline(always)]
pub(crate) fn write_all<T>(
    slots: &mut [MaybeUninit<T>],
    elements: impl IntoIterator<Item = T>,
) -> &mut [T] {
    let mut count = 0;
    for (slot, element) in slots.iter_mut().zip(elements) {
        slot.write(element);
        count += 1;
    }
    assert!(count == slots.len(), "fewer elements than slots to write");
    // SAFETY: the loop goes through the slots in order and has written as many as there are.
    #[expect(unsafe_code, reason = "they are written")]
    unsafe {
        written(slots)
    }
}

/// Has `write` write each of these rows, all of the same width, given the row's index.
pub(crate) fn write_rows<'a, T>(
    slots: &'a mut [MaybeUninit<T>],
    rows: &Range<usize>,
    mut write: impl FnMut(usize, &mut [MaybeUninit<T>]) -> &mut [T],
) -> &'a mut [T] {
    let width = slots.len().checked_div(rows.len()).unwrap_or(0);
    assert!(
        slots.len() == width * rows.len(),
        "rows of different widths"
    );
    for (index, row) in rows.clone().enumerate() {
        let own = &mut slots[index * width..(index + 1) * width];
        let expected = own.as_ptr_range();
        let written = write(row, own).as_ptr_range();
        assert!(is_same(&expected, &written), "a row was not handed back");
    }
    // SAFETY: the rows are all of the memory, and the slice that `write` has handed back for each shows that its
    // elements are initialised.
    #[expect(unsafe_code, reason = "they are written")]
    unsafe {
        written(slots)
    }
}

/// Whether slots and initialised elements are the same memory; empty ones always are.
pub(super) fn is_same<T>(slots: &Range<*const MaybeUninit<T>>, elements: &Range<*const T>) -> bool {
    let elements = elements.start.cast()..elements.end.cast();
    *slots == elements || slots.is_empty() && elements.is_empty()
}

/// Uninitialised memory that is written from its start to its end.
pub(crate) struct Cursor<'a, T> {
    slots: &'a mut [MaybeUninit<T>],
    /// Number of elements written, all of them at the start.
    count: usize,
}

impl<'a, T> Cursor<'a, T> {
    #[inline(always)]
    pub(crate) fn new(slots: &'a mut [MaybeUninit<T>]) -> Cursor<'a, T> {
        Cursor { slots, count: 0 }
    }

    /// Writes the next `count` elements.
    #[inline(always)]
    pub(crate) fn write(&mut self, count: usize, elements: impl IntoIterator<Item = T>) {
        write_all(&mut self.slots[self.count..][..count], elements);
        self.count += count;
    }

    /// Writes the next `count` elements, an even number, in pairs.
    #[inline(always)]
    pub(crate) fn write_pairs(&mut self, count: usize, pairs: impl IntoIterator<Item = [T; 2]>) {
        let slots = self.slots[self.count..][..count].as_chunks_mut::<2>().0;
        let mut done = 0;
        for (slots, pair) in slots.iter_mut().zip(pairs) {
            *slots = pair.map(MaybeUninit::new);
            done += 2;
        }
        assert!(done == count, "fewer elements than slots to write");
        self.count += count;
    }

    /// The elements, all of which must have been written.
    #[inline(always)]
    pub(crate) fn finish(self) -> &'a mut [T] {
        assert!(
            self.count == self.slots.len(),
            "fewer elements than slots to write"
        );
        // SAFETY: `count` grows only by elements that `write_all` has written, or the loop of `write_pairs`, beginning with the first, and
        // now counts them all.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            written(self.slots)
        }
    }
}

/// Written memory as initialised elements (`assume_init`).
///
/// # Safety
///
/// All elements have been written.
#[expect(unsafe_code, reason = "that all are written is known where they are")]
pub(crate) unsafe fn written<T>(slots: &mut [MaybeUninit<T>]) -> &mut [T] {
    poison::check(slots);
    // SAFETY: `MaybeUninit<T>` has the layout of `T`, and by this function's contract all elements have been written.
    unsafe { &mut *(std::ptr::from_mut(slots) as *mut [T]) }
}

/// Detection of elements that were never written, in builds with debug assertions.
///
/// Uninitialised elements are filled with a NaN whose payload no operation produces. Arithmetic keeps it, so a result
/// computed from such an element is detected too.
#[cfg(debug_assertions)]
mod poison {
    use std::mem::MaybeUninit;

    const POISON: [u8; 4] = 0xfff5_5eed_u32.to_ne_bytes();

    fn bytes<T>(slots: &mut [MaybeUninit<T>]) -> &mut [MaybeUninit<u8>] {
        let length = size_of_val(slots);
        // SAFETY: pointer and length are those of `slots`, mutably borrowed for as long; any byte, initialised or not,
        // is a valid `MaybeUninit<u8>`.
        #[expect(unsafe_code, reason = "elements of any type as bytes")]
        unsafe {
            std::slice::from_raw_parts_mut(slots.as_mut_ptr().cast(), length)
        }
    }

    pub(super) fn fill<T>(slots: &mut [MaybeUninit<T>]) {
        for (byte, poison) in bytes(slots).iter_mut().zip(POISON.iter().cycle()) {
            byte.write(*poison);
        }
    }

    /// Panics if an element of four or eight bytes still has the value that [`fill`] gave it.
    pub(super) fn check<T>(slots: &[MaybeUninit<T>]) {
        let size = size_of::<T>();
        if size != 4 && size != 8 {
            return;
        }
        // SAFETY: pointer and length are those of `slots`, and every byte is initialised: by `fill`, or by what was
        // written since.
        #[expect(unsafe_code, reason = "elements of any type as bytes")]
        let bytes: &[u8] =
            unsafe { std::slice::from_raw_parts(slots.as_ptr().cast(), size_of_val(slots)) };
        let is_poison = |element: &[u8]| element.chunks(4).all(|half| half == POISON);
        if let Some(index) = bytes.chunks(size).position(is_poison) {
            panic!("element {index} of {} was never written", slots.len());
        }
    }
}

#[cfg(not(debug_assertions))]
mod poison {
    use std::mem::MaybeUninit;

    #[inline]
    pub(super) fn fill<T>(_slots: &mut [MaybeUninit<T>]) {}

    #[inline]
    pub(super) fn check<T>(_slots: &[MaybeUninit<T>]) {}
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "element 2 of 3 was never written")]
    #[expect(unsafe_code, reason = "what must not be done")]
    fn an_element_that_was_never_written_is_noticed() {
        let mut numbers = UninitBuffer::<f32>::new(3);
        zeros(&mut numbers.slots()[..2]);
        // SAFETY: one element is never written, but the check panics before any is read as `f32`.
        unsafe { numbers.written() };
    }
}
