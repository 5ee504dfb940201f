//! Memory with a number of elements for each row or chunk of the work.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::shared_slice::SharedSlice;
use super::{Memory, sealed};
use crate::kernels::UninitBuffer;
use crate::kernels::memory::fresh::is_same;

/// What each part of memory belongs to.
#[derive(Clone, Copy)]
enum Unit {
    Row,
    Chunk,
}

/// How memory is divided: `each` elements for each row or chunk.
#[derive(Clone, Copy)]
struct Division {
    each: usize,
    unit: Unit,
}

impl Division {
    /// Number of elements of all rows or chunks; `None` if there is no such number.
    fn elements(&self, rows: usize, chunks: usize) -> Option<usize> {
        match self.unit {
            Unit::Row => rows.checked_mul(self.each),
            Unit::Chunk => chunks.checked_mul(self.each),
        }
    }

    /// Elements of a chunk, which has these rows.
    fn range(&self, chunk: usize, rows: &Range<usize>) -> Range<usize> {
        match self.unit {
            Unit::Row => rows.start * self.each..rows.end * self.each,
            Unit::Chunk => chunk * self.each..(chunk + 1) * self.each,
        }
    }
}

/// Initialised memory with a number of elements for each row of the work.
pub struct Rows<'a, T> {
    slice: SharedSlice<'a, T>,
    division: Division,
}

impl<'a, T> Rows<'a, T> {
    /// Memory with `each` elements for each row.
    pub fn new(slice: &'a mut [T], each: usize) -> Rows<'a, T> {
        Rows {
            slice: SharedSlice::new(slice),
            division: Division {
                each,
                unit: Unit::Row,
            },
        }
    }

    /// As [`Rows::new`], for memory that may be absent: parts of an empty slice are empty.
    pub fn if_any(slice: &'a mut [T], each: usize) -> Rows<'a, T> {
        let each = if slice.is_empty() { 0 } else { each };
        Rows::new(slice, each)
    }

    /// Memory with `each` elements for each chunk of the rows.
    pub fn per_chunk(slice: &'a mut [T], each: usize) -> Rows<'a, T> {
        Rows {
            slice: SharedSlice::new(slice),
            division: Division {
                each,
                unit: Unit::Chunk,
            },
        }
    }
}

impl<T> sealed::Sealed for Rows<'_, T> {}

impl<T: Send + 'static> Memory for Rows<'_, T> {
    type Part<'p> = &'p mut [T];
    type Written<'p> = ();
    type Filled = ();

    fn fits(&self, rows: usize, chunks: usize) -> bool {
        self.division.elements(rows, chunks) == Some(self.slice.len())
    }

    #[expect(unsafe_code, reason = "the caller knows that chunks are disjoint")]
    unsafe fn part<'p>(&self, chunk: usize, rows: &Range<usize>) -> &'p mut [T] {
        // SAFETY: elements of different rows and chunks are disjoint, and by this function's contract no part of the
        // same ones is alive.
        unsafe { self.slice.part(self.division.range(chunk, rows)) }
    }

    fn is_written(&self, _chunk: usize, _rows: &Range<usize>, (): ()) -> bool {
        true
    }

    #[expect(unsafe_code, reason = "there is nothing to be known")]
    unsafe fn filled(self) {}
}

/// New memory with a number of elements for each row of the work, uninitialised until all have been written.
pub(crate) struct UninitRows<T: 'static> {
    pub(super) buffer: UninitBuffer<T>,
    /// The elements of `buffer`, which nothing else accesses before all have been written.
    pub(super) slice: SharedSlice<'static, MaybeUninit<T>>,
    division: Division,
}

impl<T: Copy + 'static> UninitRows<T> {
    /// Allocates `each` elements for each of `rows` rows.
    pub(crate) fn new(rows: usize, each: usize) -> UninitRows<T> {
        UninitRows::divided(rows, each, Unit::Row)
    }

    /// Allocates `each` elements for each of `chunks` chunks of the rows.
    pub(crate) fn per_chunk(chunks: usize, each: usize) -> UninitRows<T> {
        UninitRows::divided(chunks, each, Unit::Chunk)
    }

    fn divided(count: usize, each: usize, unit: Unit) -> UninitRows<T> {
        let mut buffer = UninitBuffer::new(count * each);
        let slots = buffer.slots();
        let slice = SharedSlice {
            start: slots.as_mut_ptr(),
            length: slots.len(),
            lifetime: PhantomData,
        };
        UninitRows {
            buffer,
            slice,
            division: Division { each, unit },
        }
    }
}

impl<T: 'static> sealed::Sealed for UninitRows<T> {}

impl<T: Copy + Send + Sync + 'static> Memory for UninitRows<T> {
    type Part<'p> = &'p mut [MaybeUninit<T>];
    type Written<'p> = &'p mut [T];
    type Filled = Vec<T>;

    fn fits(&self, rows: usize, chunks: usize) -> bool {
        self.division.elements(rows, chunks) == Some(self.slice.len())
    }

    #[expect(unsafe_code, reason = "the caller knows that chunks are disjoint")]
    unsafe fn part<'p>(&self, chunk: usize, rows: &Range<usize>) -> &'p mut [MaybeUninit<T>] {
        // SAFETY: elements of different rows and chunks are disjoint, and by this function's contract no part of the
        // same ones is alive.
        unsafe { self.slice.part(self.division.range(chunk, rows)) }
    }

    fn is_written(&self, chunk: usize, rows: &Range<usize>, written: &mut [T]) -> bool {
        let Range { start, end } = self.division.range(chunk, rows);
        let slots = self.slice.slot(start).cast_const()..self.slice.slot(end).cast_const();
        is_same(&slots, &written.as_ptr_range())
    }

    #[expect(unsafe_code, reason = "the caller knows that all is written")]
    unsafe fn filled(self) -> Vec<T> {
        // SAFETY: by this function's contract every part was written, and the parts are all of the buffer, since it
        // fits the rows and chunks.
        unsafe { self.buffer.written() }
    }
}
