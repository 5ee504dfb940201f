//! Work shared among threads, those of the module `pool`: how it is cut, and who does which part.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::inside::{Inside, is_inside};
use super::pool::{MOST_UNITS, Pool};
use super::threads;

/// Below so many operations a thread more costs more than it brings.
const WORTHWHILE: usize = 200_000;

/// How many threads work is cut for: as many as were asked for, whether or not that many were started.
pub fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| threads::threads().asked.clamp(1, MOST_UNITS))
}

/// The pool, started when it is first needed.
fn pool() -> &'static Pool {
    static POOL: OnceLock<&'static Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool::start(threads::threads().started() - 1, threads()))
}

/// How many threads work of so many operations is worth.
pub fn parts(operations: usize) -> usize {
    if operations < 2 * WORTHWHILE {
        1
    } else {
        threads().min(operations / WORTHWHILE)
    }
}

/// The range of part `index` of `count`, of `length` places in whole steps of `step`.
pub fn range(length: usize, step: usize, index: usize, count: usize) -> Range<usize> {
    let steps = length.div_ceil(step.max(1));
    let place = |index: usize| (steps * index / count.max(1) * step).min(length);
    place(index)..place(index + 1)
}

/// Does parts `0..count` of some work, each once, side by side.
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

/// Does pieces `0..count` of some work, each once, on at most so many threads. Each has a share of its own, always
/// the same one, which it finds in its cache; who is done early takes pieces from the end of another's, so that a
/// core that is slower, or busy with something else, does less. For work whose results don't depend on who does
/// it; `room` makes what each thread needs for itself.
pub fn share_out<R>(
    threads: usize,
    count: usize,
    room: impl Fn() -> R + Sync,
    work: impl Fn(&mut R, usize) + Sync,
) {
    let threads = threads.clamp(1, count.max(1));
    let shares: Vec<Share> = (0..threads)
        .map(|thread| Share::new(range(count, 1, thread, threads)))
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

/// Pieces of each thread's share of a range.
pub const PIECES: usize = 4;

/// Where they begin and end, in parts of the share: smaller and smaller, as others take from the end, so that the
/// last piece that anybody waits for is a small one.
const CUTS: [usize; PIECES + 1] = [0, 16, 26, 29, 32];

/// The range of piece `index` of `threads` · [`PIECES`], of `length` places in whole steps of `step`.
pub fn piece(length: usize, step: usize, index: usize, threads: usize) -> Range<usize> {
    let share = range(length, step, index / PIECES, threads);
    let steps = share.len().div_ceil(step.max(1));
    let place = |cut: usize| {
        share
            .end
            .min(share.start + steps * cut / CUTS[PIECES] * step)
    };
    place(CUTS[index % PIECES])..place(CUTS[index % PIECES + 1])
}

/// Calls `work` for ranges that cover `length` places, in whole steps of `step`, on at most so many threads, as
/// [`share_out`] does.
pub fn share_range(threads: usize, length: usize, step: usize, work: impl Fn(Range<usize>) + Sync) {
    if threads <= 1 {
        work(0..length);
        return;
    }
    share_out(
        threads,
        threads * PIECES,
        || (),
        |(), index| {
            let range = piece(length, step, index, threads);
            if !range.is_empty() {
                work(range);
            }
        },
    );
}

/// The pieces of a share that nobody has taken yet: the first, and the one behind the last.
struct Share(Mutex<Range<usize>>);

impl Share {
    fn new(pieces: Range<usize>) -> Share {
        Share(Mutex::new(pieces))
    }

    /// The first piece, or the last.
    fn take(&self, first: bool) -> Option<usize> {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if first {
            pieces.next()
        } else {
            pieces.next_back()
        }
    }
}

/// A slice whose parts are written by several threads.
pub struct Shared<'a, T> {
    start: *mut T,
    length: usize,
    lifetime: PhantomData<&'a mut [T]>,
}

// SAFETY: it hands out nothing but parts, whose user vouches that nobody else has them.
#[expect(unsafe_code, reason = "threads write to parts of one slice")]
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    /// Of a slice that nobody else has meanwhile.
    pub fn new(slice: &'a mut [T]) -> Shared<'a, T> {
        Shared {
            start: slice.as_mut_ptr(),
            length: slice.len(),
            lifetime: PhantomData,
        }
    }

    /// How many places there are.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether it is")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Where a part begins, which lies inside the slice.
    pub fn places(&self, range: Range<usize>) -> *mut T {
        let fits = range.start <= range.end && range.end <= self.length;
        assert!(fits, "a part reaches beyond its slice");
        self.start.wrapping_add(range.start)
    }

    /// A part; an empty one where it reaches beyond the slice.
    ///
    /// # Safety
    ///
    /// No place of it is in another part that lives.
    #[expect(unsafe_code, reason = "the caller knows that parts are disjoint")]
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint")]
    pub unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        if range.start > range.end || range.end > self.length {
            return &mut [];
        }
        // SAFETY: inside the slice, and by the caller's word nobody else's.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
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
            let of = |index| piece(length, step, index, threads);
            let all: Vec<usize> = (0..threads * PIECES).flat_map(of).collect();
            assert_eq!(all, (0..length).collect::<Vec<_>>());
        }
        let lengths: Vec<usize> = (0..PIECES)
            .map(|index| piece(64, 1, index, 2).len())
            .collect();
        assert_eq!(lengths, [16, 10, 3, 3]);
        for threads in [1, 3] {
            let done: Vec<AtomicUsize> = (0..50).map(|_| AtomicUsize::new(0)).collect();
            share_range(threads, 50, 2, |range| {
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
        share_out(4, 50, room, |_, index| {
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
