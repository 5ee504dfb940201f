//! Memory filled by several threads: each chunk of the work gets its own part of it.
//!
//! Kernels write disjoint parts of a slice at the same time, often of a new one that is uninitialised until all parts
//! have been written. [`fill_parts`] promises both, once for all kernels: it computes the parts itself, so it knows
//! that they are disjoint, and of uninitialised memory it takes each part back as an initialised slice.
//!
//! What doesn't consist of rows, such as tiles, is written through a `SharedSlice`.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::UninitBuffer;
use super::fresh::is_same;
use super::region::{self, CHUNKS};

/// How rows are cut into chunks, and how the chunks are scheduled.
///
/// Rows are whatever a kernel processes independently: rows of a matrix, planes of images, or single elements.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    threads: usize,
    rows: usize,
    cut: Cut,
}

#[derive(Clone, Copy, Debug)]
enum Cut {
    /// One chunk for each thread, cut at multiples of a number of rows.
    PerThread(usize),
    /// [`CHUNKS`] for each thread, with work stealing, cut at multiples of a number of rows.
    Stealing(usize),
    /// Of this many rows each, with work stealing.
    OfSize(usize),
}

impl Schedule {
    /// One chunk for each thread, cut at multiples of `step`: [`region::run`] over [`region::range`].
    pub fn per_thread(threads: usize, rows: usize, step: usize) -> Schedule {
        Schedule {
            threads: threads.max(1),
            rows,
            cut: Cut::PerThread(step.max(1)),
        }
    }

    /// [`CHUNKS`] for each thread, cut at multiples of `step`: [`region::distribute`] over [`region::chunk`]. A single
    /// thread has all rows in one chunk.
    pub fn stealing(threads: usize, rows: usize, step: usize) -> Schedule {
        if threads <= 1 {
            return Schedule::per_thread(1, rows, step);
        }
        Schedule::in_chunks(threads, rows, step)
    }

    /// As [`Schedule::stealing`], but a single thread has as many chunks: for sums over each chunk.
    pub fn in_chunks(threads: usize, rows: usize, step: usize) -> Schedule {
        Schedule {
            threads: threads.max(1),
            rows,
            cut: Cut::Stealing(step.max(1)),
        }
    }

    /// Chunks of `size` rows each, the last one of what is left: [`region::distribute`].
    pub fn of_size(threads: usize, rows: usize, size: usize) -> Schedule {
        Schedule {
            threads: threads.max(1),
            rows,
            cut: Cut::OfSize(size.max(1)),
        }
    }

    /// Number of chunks, of which some may be empty.
    pub fn chunks(&self) -> usize {
        match self.cut {
            Cut::PerThread(_) => self.threads,
            Cut::Stealing(_) => self.threads * CHUNKS,
            Cut::OfSize(size) => self.rows.div_ceil(size),
        }
    }

    /// Rows of a chunk: those of different chunks are disjoint, and all chunks have all rows.
    fn range(&self, chunk: usize) -> Range<usize> {
        match self.cut {
            Cut::PerThread(step) => region::range(self.rows, step, chunk, self.threads),
            Cut::Stealing(step) => region::chunk(self.rows, step, chunk, self.threads),
            Cut::OfSize(size) => chunk * size..self.rows.min((chunk + 1) * size),
        }
    }

    /// Runs `work` once for each chunk; `room` creates each thread's scratch memory.
    fn run<R>(&self, room: impl Fn() -> R + Sync, work: impl Fn(&mut R, usize) + Sync) {
        match self.cut {
            Cut::PerThread(_) => region::run(self.threads, |chunk| work(&mut room(), chunk)),
            _ => region::distribute(self.threads, self.chunks(), room, work),
        }
    }
}

/// Fills memory in parallel and returns what was new of it.
///
/// `work` is called once for each chunk of the schedule, with the chunk's rows and its part of the memory, and hands
/// back what was uninitialised, written: a tuple of parts for a tuple of memory, with `()` for initialised memory.
///
/// ```
/// use sconce_ops::kernels::fill::{Rows, Schedule, fill_parts};
///
/// let (mut squares, mut sums) = ([0; 12], [0; 4]);
/// let memory = (Rows::new(&mut squares, 3), Rows::new(&mut sums, 1));
/// fill_parts(Schedule::per_thread(2, 4, 1), memory, |rows, (squares, sums)| {
///     for ((row, squares), sum) in rows.clone().zip(squares.chunks_exact_mut(3)).zip(sums) {
///         squares.fill(row * row);
///         *sum = squares.iter().sum();
///     }
///     ((), ())
/// });
/// assert_eq!(squares, [0, 0, 0, 1, 1, 1, 4, 4, 4, 9, 9, 9]);
/// assert_eq!(sums, [0, 3, 12, 27]);
/// ```
///
/// # Panics
///
/// If the memory has another number of rows or chunks than the schedule, or if a part of uninitialised memory is not
/// handed back.
pub fn fill_parts<M: Memory>(
    schedule: Schedule,
    memory: M,
    work: impl for<'p> Fn(&'p Range<usize>, M::Part<'p>) -> M::Written<'p> + Sync,
) -> M::Filled {
    fill_chunks(
        schedule,
        memory,
        || (),
        |(), _, rows, part| work(rows, part),
    )
}

/// [`fill_parts`] with scratch memory for each thread, which `room` creates.
pub fn fill_parts_with<M: Memory, R>(
    schedule: Schedule,
    memory: M,
    room: impl Fn() -> R + Sync,
    work: impl for<'p> Fn(&mut R, &'p Range<usize>, M::Part<'p>) -> M::Written<'p> + Sync,
) -> M::Filled {
    fill_chunks(schedule, memory, room, |room, _, rows, part| {
        work(room, rows, part)
    })
}

/// [`fill_parts_with`], where `work` is given the index of the chunk, too.
pub(super) fn fill_chunks<M: Memory, R>(
    schedule: Schedule,
    memory: M,
    room: impl Fn() -> R + Sync,
    work: impl for<'p> Fn(&mut R, usize, &'p Range<usize>, M::Part<'p>) -> M::Written<'p> + Sync,
) -> M::Filled {
    assert!(
        memory.fits(schedule.rows, schedule.chunks()),
        "memory to be filled has another size than the work"
    );
    schedule.run(room, |room, chunk| {
        let rows = schedule.range(chunk);
        // SAFETY: each chunk is run once, and neither index nor rows are those of another chunk; the part does not
        // outlive this call, since `work` takes one of any lifetime, and `memory` lives longer.
        #[expect(unsafe_code, reason = "each chunk has its own part")]
        let part = unsafe { memory.part(chunk, &rows) };
        let written = work(room, chunk, &rows, part);
        let is_written = memory.is_written(chunk, &rows, written);
        assert!(
            is_written,
            "a part of uninitialised memory was not handed back"
        );
    });
    // SAFETY: all chunks were run, since a panic in any of them would have been the caller's, and their rows are all
    // rows; each part of uninitialised memory was handed back as initialised.
    #[expect(unsafe_code, reason = "all parts are written")]
    unsafe {
        memory.filled()
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Memory that [`fill_parts`] gives out in parts: [`Rows`], new memory, and tuples of them.
///
/// Only this module implements it, since [`fill_parts`] relies on what is said here.
pub trait Memory: Sync + sealed::Sealed {
    /// The part of a chunk.
    type Part<'p>;
    /// A part that has been written: an initialised slice where it was uninitialised, otherwise nothing.
    type Written<'p>;
    /// What the memory is once all parts have been written: a vector of what was new, otherwise nothing.
    type Filled;

    /// Whether there is a part for each row or chunk.
    fn fits(&self, rows: usize, chunks: usize) -> bool;

    /// The part of a chunk, which has these rows.
    ///
    /// # Safety
    ///
    /// No part of the same chunk, or of some of the same rows, is alive at the same time, and none outlives the memory.
    #[expect(unsafe_code, reason = "the caller knows that chunks are disjoint")]
    unsafe fn part<'p>(&self, chunk: usize, rows: &Range<usize>) -> Self::Part<'p>;

    /// Whether `written` is the part of this chunk, all of it.
    fn is_written(&self, chunk: usize, rows: &Range<usize>, written: Self::Written<'_>) -> bool;

    /// The memory, all of it written.
    ///
    /// # Safety
    ///
    /// The memory fits the rows and chunks, and every part of them was written.
    #[expect(unsafe_code, reason = "the caller knows that all is written")]
    unsafe fn filled(self) -> Self::Filled;
}

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
    buffer: UninitBuffer<T>,
    /// The elements of `buffer`, which nothing else accesses before all have been written.
    slice: SharedSlice<'static, MaybeUninit<T>>,
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

/// New memory with a vector of its own for each chunk of the rows.
pub(crate) struct UninitChunks<T: 'static>(Vec<UninitRows<T>>);

impl<T: Copy + 'static> UninitChunks<T> {
    /// Allocates `each` elements for each of `chunks` chunks.
    pub(crate) fn new(chunks: usize, each: usize) -> UninitChunks<T> {
        let chunk = |_| UninitRows::new(1, each);
        UninitChunks((0..chunks).map(chunk).collect())
    }
}

impl<T: 'static> sealed::Sealed for UninitChunks<T> {}

impl<T: Copy + Send + Sync + 'static> Memory for UninitChunks<T> {
    type Part<'p> = &'p mut [MaybeUninit<T>];
    type Written<'p> = &'p mut [T];
    type Filled = Vec<Vec<T>>;

    fn fits(&self, _rows: usize, chunks: usize) -> bool {
        self.0.len() == chunks
    }

    #[expect(unsafe_code, reason = "the caller knows that chunks are disjoint")]
    unsafe fn part<'p>(&self, chunk: usize, _rows: &Range<usize>) -> &'p mut [MaybeUninit<T>] {
        // SAFETY: each chunk has a vector of its own, and by this function's contract no part of it is alive.
        unsafe { self.0[chunk].part(0, &(0..1)) }
    }

    fn is_written(&self, chunk: usize, _rows: &Range<usize>, written: &mut [T]) -> bool {
        self.0[chunk].is_written(0, &(0..1), written)
    }

    #[expect(unsafe_code, reason = "the caller knows that all is written")]
    unsafe fn filled(self) -> Vec<Vec<T>> {
        let chunks = self.0.into_iter();
        // SAFETY: by this function's contract the vector of every chunk was written.
        chunks.map(|chunk| unsafe { chunk.filled() }).collect()
    }
}

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

macro_rules! tuples {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Memory),+> sealed::Sealed for ($($name,)+) {}

        impl<$($name: Memory),+> Memory for ($($name,)+) {
            type Part<'p> = ($($name::Part<'p>,)+);
            type Written<'p> = ($($name::Written<'p>,)+);
            type Filled = ($($name::Filled,)+);

            fn fits(&self, rows: usize, chunks: usize) -> bool {
                $(self.$index.fits(rows, chunks))&&+
            }

            #[expect(unsafe_code, reason = "the caller knows that chunks are disjoint")]
            unsafe fn part<'p>(&self, chunk: usize, rows: &Range<usize>) -> Self::Part<'p> {
                // SAFETY: this function's contract is that of each memory's part.
                unsafe { ($(self.$index.part(chunk, rows),)+) }
            }

            fn is_written(&self, chunk: usize, rows: &Range<usize>, written: Self::Written<'_>) -> bool {
                $(self.$index.is_written(chunk, rows, written.$index))&&+
            }

            #[expect(unsafe_code, reason = "the caller knows that all is written")]
            unsafe fn filled(self) -> Self::Filled {
                // SAFETY: this function's contract is that of each memory.
                unsafe { ($(self.$index.filled(),)+) }
            }
        }
    };
}

tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);

/// A slice whose disjoint parts are written by several threads.
pub(crate) struct SharedSlice<'a, T> {
    start: *mut T,
    length: usize,
    lifetime: PhantomData<&'a mut [T]>,
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

    /// Number of elements.
    fn len(&self) -> usize {
        self.length
    }

    /// Pointer to the start of a range, which must lie inside the slice.
    pub(crate) fn slots(&self, range: Range<usize>) -> *mut T {
        let fits = range.start <= range.end && range.end <= self.length;
        assert!(fits, "a part reaches beyond its slice");
        self.slot(range.start)
    }

    /// Pointer to an element, or to the end of the slice.
    fn slot(&self, index: usize) -> *mut T {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::kernels::{write_all, zeros};

    #[test]
    fn every_row_is_filled_by_the_chunk_that_has_it() {
        for (threads, rows) in [(1, 7), (2, 7), (3, 64), (4, 2), (2, 0)] {
            for schedule in [
                Schedule::per_thread(threads, rows, 1),
                Schedule::per_thread(threads, rows, 4),
                Schedule::stealing(threads, rows, 2),
                Schedule::in_chunks(threads, rows, 1),
                Schedule::of_size(threads, rows, 3),
            ] {
                let chunks = schedule.chunks();
                let (mut doubled, mut counts) = (vec![0; 2 * rows], vec![0; chunks]);
                let rooms = AtomicUsize::new(0);
                let memory = (
                    UninitRows::new(rows, 3),
                    Rows::new(&mut doubled, 2),
                    Rows::per_chunk(&mut counts, 1),
                    (
                        UninitRows::per_chunk(chunks, 1),
                        UninitChunks::new(chunks, 1),
                    ),
                );
                let room = || rooms.fetch_add(1, Ordering::SeqCst);
                let (tripled, (), (), (lengths, ends)) =
                    fill_parts_with(schedule, memory, room, |_, rows, parts| {
                        let (tripled, doubled, counts, (lengths, ends)) = parts;
                        for (row, doubled) in rows.clone().zip(doubled.chunks_exact_mut(2)) {
                            doubled.fill(row);
                        }
                        counts.fill(rows.len());
                        let indices = (3 * rows.start..).take(tripled.len());
                        let tripled = write_all(tripled, indices);
                        let lengths = write_all(lengths, [rows.len() as u64]);
                        (tripled, (), (), (lengths, write_all(ends, [rows.end])))
                    });
                assert_eq!(tripled, (0..3 * rows).collect::<Vec<_>>());
                assert_eq!(doubled, (0..2 * rows).map(|x| x / 2).collect::<Vec<_>>());
                assert_eq!(counts.iter().sum::<usize>(), rows);
                assert_eq!(lengths.iter().sum::<u64>(), rows as u64);
                assert_eq!(ends.iter().flatten().max().copied().unwrap_or(0), rows);
                assert!(rooms.into_inner() <= threads.max(1));
            }
        }
    }

    #[test]
    fn interleaved_rows_are_filled_in_all_lines() {
        let dims @ [outer, lines, inner, each] = [2, 3, 5, 2];
        let expected: Vec<usize> = (0..outer * lines * inner * each).collect();
        for threads in [1, 3] {
            let schedule = Schedule::per_thread(threads, outer * inner, 1);
            let filled = fill_parts(schedule, UninitInterleaved::new(dims), |rows, mut part| {
                for row in rows.clone() {
                    let (outer, index) = (row / inner, row % inner);
                    part.write_next(|line, slots| {
                        let start = ((outer * lines + line) * inner + index) * each;
                        write_all(slots, start..)
                    });
                }
                part.finish()
            });
            assert_eq!(filled, expected);
        }
    }

    #[test]
    #[should_panic(expected = "fewer rows than a part has")]
    fn interleaved_rows_that_are_left_out_are_noticed() {
        let memory = UninitInterleaved::new([1, 1, 3, 1]);
        fill_parts(Schedule::per_thread(1, 3, 1), memory, |_, mut part| {
            part.write_next(|_, slots| zeros::<f32>(slots));
            part.finish()
        });
    }

    #[test]
    #[should_panic(expected = "another size than the work")]
    fn memory_of_another_size_is_not_filled() {
        let mut numbers = [0; 5];
        fill_parts(
            Schedule::per_thread(1, 3, 1),
            Rows::new(&mut numbers, 2),
            |_, _| (),
        );
    }

    #[test]
    #[should_panic(expected = "was not handed back")]
    fn a_part_that_is_not_handed_back_is_noticed() {
        fill_parts(
            Schedule::per_thread(1, 3, 1),
            UninitRows::<f32>::new(3, 1),
            |_, slots| &mut zeros(slots)[1..],
        );
    }

    #[test]
    #[should_panic(expected = "was not handed back")]
    fn another_slice_is_no_part() {
        fill_parts(
            Schedule::per_thread(1, 3, 1),
            UninitRows::<f32>::new(3, 1),
            |_, _| Box::leak(Box::new([0.0; 3])),
        );
    }

    #[test]
    fn absent_memory_has_empty_parts() {
        let memory = Rows::if_any(&mut [] as &mut [f32], 1);
        fill_parts(Schedule::per_thread(2, 6, 1), memory, |_, part| {
            assert!(part.is_empty());
        });
    }

    #[test]
    #[should_panic(expected = "beyond its slice")]
    #[expect(unsafe_code, reason = "a part")]
    fn a_part_beyond_the_slice_is_no_part() {
        let mut numbers = [1, 2, 3];
        let shared = SharedSlice::new(&mut numbers);
        // SAFETY: this is the only part.
        unsafe { shared.part(2..4) };
    }
}
