//! Memory filled by several threads: each chunk of the work gets its own part of it.
//!
//! Kernels write disjoint parts of a slice at the same time, often of a new one that is uninitialised until all parts
//! have been written. [`fill_parts`] promises both, once for all kernels: it computes the parts itself, so it knows
//! that they are disjoint, and of uninitialised memory it takes each part back as an initialised slice.
//!
//! What doesn't consist of rows, such as tiles, is written through a `SharedSlice`.
//!
//! **Parts.** This file cuts and schedules the work. `rows`: memory by rows or chunks. `interleaved`: memory whose rows are
//! interleaved. `shared_slice`: the slice below all of them.

mod interleaved;
mod rows;
mod shared_slice;

use std::ops::Range;

pub(crate) use interleaved::{InterleavedRows, UninitInterleaved};
pub use rows::Rows;
pub(crate) use rows::UninitRows;
pub(crate) use shared_slice::SharedSlice;

use crate::kernels::parallel::region::{self, CHUNKS};

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
pub(in crate::kernels) fn fill_chunks<M: Memory, R>(
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

#[cfg(test)]
mod tests;
