//! Parallel regions on the threads of the module `pool`: how work is partitioned and scheduled.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::inside::{Inside, is_inside};
use super::pool::{MOST_UNITS, ThreadPool};
use super::threads;

/// Number of operations below which another thread costs more than it saves.
const WORTHWHILE: usize = 200_000;

/// Number of threads that work is partitioned for: as many as requested, even if fewer were started.
pub fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| threads::threads().asked.clamp(1, MOST_UNITS))
}

/// The thread pool, started at its first use.
fn pool() -> &'static ThreadPool {
    static POOL: OnceLock<&'static ThreadPool> = OnceLock::new();
    POOL.get_or_init(|| ThreadPool::start(threads::threads().started() - 1, threads()))
}

/// Number of threads worth using for this many operations.
pub fn parts(operations: usize) -> usize {
    if operations < 2 * WORTHWHILE {
        1
    } else {
        threads().min(operations / WORTHWHILE)
    }
}

/// Range of part `index` of `count`, where `0..length` is cut at multiples of `step`.
pub fn range(length: usize, step: usize, index: usize, count: usize) -> Range<usize> {
    let steps = length.div_ceil(step.max(1));
    let place = |index: usize| (steps * index / count.max(1) * step).min(length);
    place(index)..place(index + 1)
}

/// Runs `work` once for each part of `0..count`, in parallel; inside another region, one after the other.
pub fn run(count: usize, work: impl Fn(usize) + Sync) {
    if count <= 1 || is_inside() {
        (0..count).for_each(work);
        return;
    }
    let units = threads().min(count);
    pool().run(units, &|unit| {
        let _inside = Inside::enter();
        (unit..count).step_by(units).for_each(&work);
    });
}

/// Runs `work` once for each chunk of `0..count`, on at most `threads` threads, with work stealing.
///
/// Each thread has its own partition of the chunks, always the same one, whose data is in its cache; idle threads steal
/// chunks from the end of another thread's partition, so that a core that is slower, or busy with something else, does
/// less. For work whose results don't depend on which thread does it; `room` creates each thread's scratch memory.
pub fn distribute<R>(
    threads: usize,
    count: usize,
    room: impl Fn() -> R + Sync,
    work: impl Fn(&mut R, usize) + Sync,
) {
    let threads = threads.clamp(1, count.max(1));
    let shares: Vec<Partition> = (0..threads)
        .map(|thread| Partition::new(range(count, 1, thread, threads)))
        .collect();
    run(threads, |thread| {
        let mut own = None;
        for distance in 0..threads {
            let share = &shares[(thread + distance) % threads];
            while let Some(index) = share.take(distance == 0) {
                work(own.get_or_insert_with(&room), index);
            }
        }
    });
}

/// Number of chunks in each thread's partition of a range.
pub const CHUNKS: usize = 4;

/// Boundaries of the chunks, in 32nds of the partition.
///
/// Chunks get smaller towards the end, from which other threads steal, so that the last one waited for is small.
const CUTS: [usize; CHUNKS + 1] = [0, 16, 26, 29, 32];

/// Range of chunk `index` of `threads` · [`CHUNKS`], where `0..length` is cut at multiples of `step`.
pub fn chunk(length: usize, step: usize, index: usize, threads: usize) -> Range<usize> {
    let share = range(length, step, index / CHUNKS, threads);
    let steps = share.len().div_ceil(step.max(1));
    let place = |cut: usize| {
        share
            .end
            .min(share.start + steps * cut / CUTS[CHUNKS] * step)
    };
    place(CUTS[index % CHUNKS])..place(CUTS[index % CHUNKS + 1])
}

/// Calls `work` for disjoint ranges that cover `0..length`, on at most `threads` threads.
///
/// The ranges are cut at multiples of `step` and scheduled as by [`distribute`].
pub fn distribute_range(
    threads: usize,
    length: usize,
    step: usize,
    work: impl Fn(Range<usize>) + Sync,
) {
    if threads <= 1 {
        work(0..length);
        return;
    }
    distribute(
        threads,
        threads * CHUNKS,
        || (),
        |(), index| {
            let range = chunk(length, step, index, threads);
            if !range.is_empty() {
                work(range);
            }
        },
    );
}

/// The indices of those chunks of a partition that have not been taken yet.
struct Partition(Mutex<Range<usize>>);

impl Partition {
    fn new(pieces: Range<usize>) -> Partition {
        Partition(Mutex::new(pieces))
    }

    /// Takes the first chunk, or the last one (for stealing).
    fn take(&self, first: bool) -> Option<usize> {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first {
            pieces.next()
        } else {
            pieces.next_back()
        }
    }
}

/// A slice whose disjoint parts are written by several threads.
pub struct SharedSlice<'a, T> {
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
    pub fn new(slice: &'a mut [T]) -> SharedSlice<'a, T> {
        SharedSlice {
            start: slice.as_mut_ptr(),
            length: slice.len(),
            lifetime: PhantomData,
        }
    }

    /// Number of elements.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether it is")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Pointer to the start of a range, which must lie inside the slice.
    pub fn places(&self, range: Range<usize>) -> *mut T {
        let fits = range.start <= range.end && range.end <= self.length;
        assert!(fits, "a part reaches beyond its slice");
        self.start.wrapping_add(range.start)
    }

    /// A part of the slice.
    ///
    /// # Panics
    ///
    /// If it reaches beyond the slice.
    ///
    /// # Safety
    ///
    /// None of its elements is in another live part.
    #[expect(unsafe_code, reason = "the caller knows that parts are disjoint")]
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint")]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        let fits = range.start <= range.end && range.end <= self.length;
        assert!(fits, "a part reaches beyond its slice");
        // SAFETY: the range was checked to lie inside the slice, and by this function's contract no other live part
        // overlaps it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// A part of a slice that may be absent: an empty one if the slice is empty.
    ///
    /// # Panics
    ///
    /// If it reaches beyond a slice that is there.
    ///
    /// # Safety
    ///
    /// As for [`part`](Shared::part): no element of it is in another part that is alive.
    #[expect(unsafe_code, reason = "the caller knows that parts are disjoint")]
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint")]
    pub unsafe fn part_if_any(&self, range: Range<usize>) -> &mut [T] {
        if self.length == 0 {
            return &mut [];
        }
        // SAFETY: the caller guarantees that no element of the range is in another part.
        unsafe { self.part(range) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn ranges_cover_everything_once() {
        for (length, step, count) in [(10, 1, 3), (100, 16, 2), (5, 16, 4), (0, 1, 2), (64, 16, 5)]
        {
            let all: Vec<usize> = (0..count)
                .flat_map(|index| range(length, step, index, count))
                .collect();
            assert_eq!(all, (0..length).collect::<Vec<_>>());
        }
    }

    #[test]
    fn pieces_cover_everything_once_and_end_small() {
        for (length, step, threads) in [(64, 1, 2), (1024, 16, 3), (5, 16, 4), (0, 1, 2), (7, 1, 2)]
        {
            let of = |index| chunk(length, step, index, threads);
            let all: Vec<usize> = (0..threads * CHUNKS).flat_map(of).collect();
            assert_eq!(all, (0..length).collect::<Vec<_>>());
        }
        let lengths: Vec<usize> = (0..CHUNKS)
            .map(|index| chunk(64, 1, index, 2).len())
            .collect();
        assert_eq!(lengths, [16, 10, 3, 3]);
        for threads in [1, 3] {
            let done: Vec<AtomicUsize> = (0..50).map(|_| AtomicUsize::new(0)).collect();
            distribute_range(threads, 50, 2, |range| {
                for index in range {
                    done[index].fetch_add(1, Ordering::SeqCst);
                }
            });
            assert!(done.iter().all(|count| count.load(Ordering::SeqCst) == 1));
        }
    }

    #[test]
    fn every_part_is_done_once_and_regions_nest() {
        let done: Vec<AtomicUsize> = (0..7).map(|_| AtomicUsize::new(0)).collect();
        run(7, |part| {
            run(3, |_| {
                done[part].fetch_add(1, Ordering::SeqCst);
            });
        });
        assert!(done.iter().all(|count| count.load(Ordering::SeqCst) == 3));
    }

    #[test]
    fn every_piece_is_done_once_with_room_of_its_thread() {
        let done: Vec<AtomicUsize> = (0..50).map(|_| AtomicUsize::new(0)).collect();
        let rooms = AtomicUsize::new(0);
        let room = || rooms.fetch_add(1, Ordering::SeqCst);
        distribute(4, 50, room, |_, index| {
            done[index].fetch_add(1, Ordering::SeqCst);
        });
        assert!(done.iter().all(|count| count.load(Ordering::SeqCst) == 1));
        assert!((1..=4).contains(&rooms.into_inner()));
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

    #[test]
    #[should_panic(expected = "in a part")]
    fn a_panic_in_a_part_is_the_callers() {
        run(4, |part| assert!(part != 0, "in a part"));
    }
}
