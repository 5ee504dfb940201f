//! New memory in which the rows of the work are interleaved.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::rows::UninitRows;
use super::shared_slice::SharedSlice;
use super::{Memory, sealed};
use crate::kernels::UninitBuffer;
use crate::kernels::memory::fresh::is_same;

/// New memory in which rows are interleaved: (outer, lines, inner, each).
///
/// A row of the work is a pair of indices (outer, inner): it has `each` elements in every line.
pub(crate) struct UninitInterleaved<T: 'static> {
    buffer: UninitBuffer<T>,
    /// The elements of `buffer`, which nothing else accesses before all have been written.
    slice: SharedSlice<'static, MaybeUninit<T>>,
    dims: [usize; 4],
}

/// Some rows of interleaved memory, to be written in order.
pub(crate) struct InterleavedRows<'p, T> {
    slice: SharedSlice<'p, MaybeUninit<T>>,
    dims: [usize; 4],
    rows: Range<usize>,
    /// Number of rows written, all of them at the start.
    count: usize,
}

/// Rows of interleaved memory that have been written: the start of the memory, and which they are.
pub(crate) struct InterleavedWritten<'p, T> {
    start: *mut MaybeUninit<T>,
    rows: Range<usize>,
    lifetime: PhantomData<&'p mut [T]>,
}

impl<T: Copy + 'static> UninitInterleaved<T> {
    /// Allocates (outer, lines, inner, each) elements.
    pub(crate) fn new(dims: [usize; 4]) -> UninitInterleaved<T> {
        let UninitRows { buffer, slice, .. } = UninitRows::new(1, dims.iter().product());
        UninitInterleaved {
            buffer,
            slice,
            dims,
        }
    }
}

impl<'p, T> InterleavedRows<'p, T> {
    /// Has `write` write the next row's elements in each line, given the line's index.
    #[expect(
        unsafe_code,
        reason = "the lines have elements of other rows between them"
    )]
    pub(crate) fn write_next(
        &mut self,
        mut write: impl FnMut(usize, &mut [MaybeUninit<T>]) -> &mut [T],
    ) {
        let [_, lines, inner, each] = self.dims;
        let row = self.rows.start + self.count;
        assert!(row < self.rows.end, "more rows than a part has");
        let (outer, index) = (row / inner, row % inner);
        for line in 0..lines {
            let start = ((outer * lines + line) * inner + index) * each;
            // SAFETY: the elements are those of one row of this part, and parts are disjoint; none of the row's other
            // slices is alive.
            let slots = unsafe { self.slice.part(start..start + each) };
            let expected = slots.as_ptr_range();
            let written = write(line, slots).as_ptr_range();
            assert!(is_same(&expected, &written), "a line was not handed back");
        }
        self.count += 1;
    }

    /// What shows that all rows have been written.
    pub(crate) fn finish(self) -> InterleavedWritten<'p, T> {
        assert!(self.count == self.rows.len(), "fewer rows than a part has");
        InterleavedWritten {
            start: self.slice.start,
            rows: self.rows,
            lifetime: PhantomData,
        }
    }
}

impl<T: 'static> sealed::Sealed for UninitInterleaved<T> {}

impl<T: Copy + Send + Sync + 'static> Memory for UninitInterleaved<T> {
    type Part<'p> = InterleavedRows<'p, T>;
    type Written<'p> = InterleavedWritten<'p, T>;
    type Filled = Vec<T>;

    fn fits(&self, rows: usize, _chunks: usize) -> bool {
        let [outer, lines, inner, each] = self.dims;
        let size = [rows, lines, each]
            .into_iter()
            .try_fold(1_usize, usize::checked_mul);
        outer.checked_mul(inner) == Some(rows) && size == Some(self.slice.len())
    }

    #[expect(unsafe_code, reason = "the caller knows that chunks are disjoint")]
    unsafe fn part<'p>(&self, _chunk: usize, rows: &Range<usize>) -> InterleavedRows<'p, T> {
        InterleavedRows {
            slice: SharedSlice {
                lifetime: PhantomData,
                ..self.slice
            },
            dims: self.dims,
            rows: rows.clone(),
            count: 0,
        }
    }

    fn is_written(
        &self,
        _chunk: usize,
        rows: &Range<usize>,
        written: InterleavedWritten<'_, T>,
    ) -> bool {
        written.start == self.slice.start && written.rows == *rows
    }

    #[expect(unsafe_code, reason = "the caller knows that all is written")]
    unsafe fn filled(self) -> Vec<T> {
        // SAFETY: by this function's contract all rows were written, each in all lines, which are all of the buffer.
        unsafe { self.buffer.written() }
    }
}
