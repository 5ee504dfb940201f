//! Parallel regions on the threads of the module `pool`: how work is partitioned and scheduled.

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
    let boundary = |index: usize| (steps * index / count.max(1) * step).min(length);
    boundary(index)..boundary(index + 1)
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
    if threads == 1 {
        // No other thread takes chunks from it: no partitions, which are allocated and locked.
        let mut own = None;
        return (0..count).for_each(|index| work(own.get_or_insert_with(&room), index));
    }
    let partitions: Vec<Partition> = (0..threads)
        .map(|thread| Partition::new(range(count, 1, thread, threads)))
        .collect();
    run(threads, |thread| {
        let mut own = None;
        for distance in 0..threads {
            let partition = &partitions[(thread + distance) % threads];
            while let Some(index) = partition.take(distance == 0) {
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
    let own = range(length, step, index / CHUNKS, threads);
    let steps = own.len().div_ceil(step.max(1));
    let boundary = |cut: usize| own.end.min(own.start + steps * cut / CUTS[CHUNKS] * step);
    boundary(CUTS[index % CHUNKS])..boundary(CUTS[index % CHUNKS + 1])
}

/// The indices of those chunks of a partition that have not been taken yet.
struct Partition(Mutex<Range<usize>>);

impl Partition {
    fn new(chunks: Range<usize>) -> Partition {
        Partition(Mutex::new(chunks))
    }

    /// Takes the first chunk, or the last one (for stealing).
    fn take(&self, first: bool) -> Option<usize> {
        let mut chunks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first {
            chunks.next()
        } else {
            chunks.next_back()
        }
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
    fn chunks_cover_everything_once_and_end_small() {
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
    fn every_chunk_is_done_once_with_room_of_its_thread() {
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
    #[should_panic(expected = "in a part")]
    fn a_panic_in_a_part_is_the_callers() {
        run(4, |part| assert!(part != 0, "in a part"));
    }
}
