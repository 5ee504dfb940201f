//! The thread pool for parallel regions, and its scheduling rules.
//!
//! A region is a number of *units* of work. The caller publishes it, does units of its own and then every unit that no
//! other thread has claimed: **it never waits for a thread that has not claimed a unit**, however busy the machine is.
//! It may wait for a unit that another thread has claimed and in which the system then preempted it; the time this
//! costs is recorded for each thread (`Bench`), and a thread that recently cost more than it saved is left out for a
//! while.
//!
//! | a worker is | until |
//! |---|---|
//! | spinning | a region is published, or [`SPIN`] is over |
//! | asleep | the caller publishes a region and wakes it |
//! | in a region | no unit is left to claim |
//! | benched (in the caller's records; the worker doesn't know) | its time is over; then it is tried again |
//!
//! Neither which thread does a unit nor how many threads there are changes a bit of a result: units are cut by the
//! number of threads requested (`region::threads`), not by the number started.
//!
//! **How a unit is claimed.** Each region has a number, higher than the previous one. `claims[unit]` holds the number
//! of the last region in which that unit was claimed; claiming it means exchanging an older number for this region's.
//! The caller leaves a region when all units are claimed and those claimed by others are finished, so a late worker
//! finds nothing to claim, and never reads the work of a region that is over.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::bench::{Bench, ThreadAccount};

/// How long an idle worker spins before it sleeps: within a training step, the next region comes sooner than this.
const SPIN: Duration = Duration::from_micros(150);

/// How long the caller spins on a unit that another thread has claimed before it sleeps.
///
/// Far shorter than a system's time slice: the process that preempted that thread may need this very core.
const SPIN_AT_END: Duration = Duration::from_micros(100);

/// Number of checks a spinning thread makes before it looks at the clock.
const LOOKS: u32 = 16;

/// Maximum number of units in a region; [`word`] has 16 bits for it.
pub(super) const MOST_UNITS: usize = 1 << 12;

/// Worker threads that help one caller at a time.
pub(super) struct ThreadPool {
    workers: Box<[Worker]>,
    /// For each unit, the number of the last region in which it was claimed.
    claims: Box<[Padded<AtomicU64>]>,
    /// Number of units that workers have finished in the current region.
    finished: Padded<AtomicUsize>,
    /// Whether the caller sleeps until they are all finished; `caller` is its thread.
    is_awaited: AtomicBool,
    caller: Mutex<Option<Thread>>,
    /// Work of the current region; read only by threads that have claimed a unit of it.
    work: UnsafeCell<ErasedClosure>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    book: Mutex<Book>,
    start: Instant,
}

// SAFETY: `work` is written only by the thread that holds `book`, while no claimed unit is unfinished, and read only by
// threads that have claimed a unit, after an acquiring load of `Worker::region` that synchronises with `ThreadPool::publish`.
#[expect(unsafe_code, reason = "threads share the work of a region")]
unsafe impl Sync for ThreadPool {}

// SAFETY: what `work` points to is `Sync`, and `ThreadPool::run` returns only once no thread uses it any more.
#[expect(unsafe_code, reason = "threads share the work of a region")]
unsafe impl Send for ThreadPool {}

/// A value on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Padded<T>(T);

/// State of one worker, shared with the caller.
#[derive(Default)]
#[repr(align(128))]
struct Worker {
    /// The last region that this worker was asked to join; see [`word`].
    region: AtomicU64,
    is_asleep: AtomicBool,
    thread: OnceLock<Thread>,
    /// Units that it did in the current region: their number, the time they took and the end of the last one, in
    /// nanoseconds. Written before the last of them counts as finished.
    units: AtomicUsize,
    busy: AtomicU64,
    end: AtomicU64,
}

/// A type-erased closure.
#[derive(Clone, Copy)]
struct ErasedClosure {
    call: fn(*const (), usize),
    data: *const (),
}

/// The caller's records; locked for as long as a region runs.
struct Book {
    number: u64,
    benches: Vec<Bench>,
    /// Indices of the workers that join the current region.
    joining: Vec<usize>,
}

/// A region's number and its number of units, in one word.
fn word(number: u64, units: usize) -> u64 {
    number << 16 | units as u64
}

fn number_and_units(word: u64) -> (u64, usize) {
    (word >> 16, (word & 0xffff) as usize)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Spins until `is_there` returns true or `limit` is over; returns the last result.
fn spin(limit: Duration, is_there: impl Fn() -> bool) -> bool {
    let mut since = None;
    loop {
        for _ in 0..LOOKS {
            if is_there() {
                return true;
            }
            std::hint::spin_loop();
        }
        if since.get_or_insert_with(Instant::now).elapsed() >= limit {
            return is_there();
        }
    }
}

impl ThreadPool {
    /// Starts a pool of `workers` workers beside the caller, for regions of at most `units` units.
    ///
    /// Where the system grants fewer threads, the pool has fewer.
    pub(super) fn start(workers: usize, units: usize) -> &'static ThreadPool {
        let pool: &'static ThreadPool = Box::leak(Box::new(ThreadPool::idle(workers, units)));
        let mut book = lock(&pool.book);
        for (index, worker) in pool.workers.iter().enumerate() {
            let started = thread::Builder::new()
                .name(format!("sconce-{index}"))
                .spawn(move || pool.serve(index));
            let Ok(handle) = started else { break };
            // Nothing else sets it, so this succeeds.
            let _ = worker.thread.set(handle.thread().clone());
            book.benches.push(Bench::default());
        }
        drop(book);
        pool
    }

    /// A pool whose workers have no threads yet.
    fn idle(workers: usize, units: usize) -> ThreadPool {
        ThreadPool {
            workers: (0..workers).map(|_| Worker::default()).collect(),
            claims: (0..units.min(MOST_UNITS))
                .map(|_| Padded::default())
                .collect(),
            finished: Padded::default(),
            is_awaited: AtomicBool::new(false),
            caller: Mutex::new(None),
            work: UnsafeCell::new(ErasedClosure {
                call: |_, _| {},
                data: std::ptr::null(),
            }),
            panic: Mutex::new(None),
            book: Mutex::new(Book {
                number: 0,
                benches: Vec::with_capacity(workers),
                joining: Vec::with_capacity(workers),
            }),
            start: Instant::now(),
        }
    }

    /// Calls `work` once for each unit of `0..units`, on the calling thread and on the workers that join.
    ///
    /// While another thread uses the pool, all units run on the calling thread.
    ///
    /// # Panics
    ///
    /// Resumes the first panic of `work`, after all other units.
    pub(super) fn run<F: Fn(usize) + Sync>(&self, units: usize, work: &F) {
        debug_assert!(units <= self.claims.len(), "a region of too many units");
        let mut book = match self.book.try_lock() {
            Ok(book) => book,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return (0..units).for_each(work),
        };
        let begin = self.now();
        book.choose(begin, units);
        if book.joining.is_empty() || units > self.claims.len() {
            drop(book);
            return (0..units).for_each(work);
        }
        let number = self.publish(&mut book, units, work);

        // From the last unit down, as the workers start with the first ones.
        let mut own = 0;
        for unit in (0..units).rev() {
            if self.claim(number, unit) {
                self.keep_panic(|| work(unit));
                own += 1;
            }
        }
        let end = self.now();
        let others = units - own;
        self.wait(others);
        book.settle(self, begin, end, own);
        let panic = lock(&self.panic).take();
        drop(book);
        if let Some(panic) = panic {
            std::panic::resume_unwind(panic);
        }
    }

    /// Nanoseconds since the pool was created.
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Publishes a region to the workers that join, and returns its number.
    fn publish<F: Fn(usize) + Sync>(&self, book: &mut Book, units: usize, work: &F) -> u64 {
        fn call<F: Fn(usize)>(data: *const (), unit: usize) {
            // SAFETY: `data` points to the closure, of type `F`, that `publish` was called with, which lives until its
            // region is over.
            #[expect(unsafe_code, reason = "a closure without its type")]
            let work = unsafe { &*data.cast::<F>() };
            work(unit);
        }
        // SAFETY: only threads with a claimed, unfinished unit read it, and there are none: the previous region is
        // over, and this one is published below. The caller holds `book`, so no other thread writes it.
        #[expect(unsafe_code, reason = "threads share the work of a region")]
        unsafe {
            *self.work.get() = ErasedClosure {
                call: call::<F>,
                data: std::ptr::from_ref(work).cast(),
            };
        }
        self.finished.0.store(0, Ordering::Relaxed);
        book.number += 1;
        for &index in &book.joining {
            let worker = &self.workers[index];
            worker.units.store(0, Ordering::Relaxed);
            worker.busy.store(0, Ordering::Relaxed);
            // Sequentially consistent with `Worker::next`: either this sees the worker asleep, or the worker sees the
            // region.
            worker
                .region
                .store(word(book.number, units), Ordering::SeqCst);
            if worker.is_asleep.load(Ordering::SeqCst)
                && let Some(thread) = worker.thread.get()
            {
                thread.unpark();
            }
        }
        book.number
    }

    /// Claims a unit of a region; false where another thread has claimed it.
    fn claim(&self, number: u64, unit: usize) -> bool {
        let Some(Padded(claim)) = self.claims.get(unit) else {
            return false;
        };
        let last = claim.load(Ordering::Relaxed);
        last < number
            && claim
                .compare_exchange(last, number, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Waits until the workers have finished `others` units.
    fn wait(&self, others: usize) {
        let is_done = || self.finished.0.load(Ordering::SeqCst) >= others;
        if is_done() || spin(SPIN_AT_END, is_done) {
            return;
        }
        *lock(&self.caller) = Some(thread::current());
        // Sequentially consistent with `do_unit`: either this sees the last unit finished, or the worker sees the flag.
        self.is_awaited.store(true, Ordering::SeqCst);
        while !is_done() {
            thread::park();
        }
        self.is_awaited.store(false, Ordering::SeqCst);
    }

    /// Main loop of a worker thread.
    fn serve(&self, index: usize) {
        super::inside::enter_for_ever();
        super::courtesy::wait_for_turn();
        let Some(worker) = self.workers.get(index) else {
            return;
        };
        let mut last = 0;
        loop {
            last = worker.next(last);
            let (number, units) = number_and_units(last);
            // Its own unit first, whose data is in its cache; then those that no other thread has claimed.
            for distance in 0..units {
                let unit = (index + distance) % units;
                if self.claim(number, unit) {
                    self.do_unit(worker, unit);
                }
            }
        }
    }

    /// Runs a unit that the worker has claimed, and records the time it took.
    fn do_unit(&self, worker: &Worker, unit: usize) {
        let begin = self.now();
        // SAFETY: the unit is claimed, so its region was published before, and `work` is not overwritten until the unit
        // is finished.
        #[expect(unsafe_code, reason = "threads share the work of a region")]
        let work = unsafe { *self.work.get() };
        self.keep_panic(|| (work.call)(work.data, unit));
        let end = self.now();
        let busy = worker.busy.load(Ordering::Relaxed) + (end - begin);
        worker.busy.store(busy, Ordering::Relaxed);
        let units = worker.units.load(Ordering::Relaxed) + 1;
        worker.units.store(units, Ordering::Relaxed);
        worker.end.store(end, Ordering::Relaxed);
        self.finished.0.fetch_add(1, Ordering::SeqCst);
        if self.is_awaited.load(Ordering::SeqCst)
            && let Some(caller) = &*lock(&self.caller)
        {
            caller.unpark();
        }
    }

    /// Keeps a panic of a unit, which would otherwise end a worker, or unwind the caller before the others finish.
    fn keep_panic(&self, work: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            lock(&self.panic).get_or_insert(panic);
        }
    }
}

impl Worker {
    /// Waits for a region other than the last one.
    fn next(&self, last: u64) -> u64 {
        let is_there = || self.region.load(Ordering::Acquire) != last;
        if !spin(SPIN, is_there) {
            self.is_asleep.store(true, Ordering::SeqCst);
            while self.region.load(Ordering::SeqCst) == last {
                thread::park();
            }
            self.is_asleep.store(false, Ordering::SeqCst);
        }
        self.region.load(Ordering::Acquire)
    }
}

impl Book {
    /// Chooses the workers that are asked to join a region starting at `now`.
    fn choose(&mut self, now: u64, units: usize) {
        self.joining.clear();
        let free = self.benches.iter().enumerate();
        let free = free.filter(|(_, bench)| bench.may_join(now));
        let free = free.map(|(index, _)| index);
        self.joining.extend(free.take(units.saturating_sub(1)));
    }

    /// Records what each worker brought and cost.
    ///
    /// The caller began at `begin`, found no more units to claim at `end`, and did `own` units.
    fn settle(&mut self, pool: &ThreadPool, begin: u64, end: u64, own: usize) {
        let mine = (end - begin) / own.max(1) as u64;
        for &index in &self.joining {
            let (Some(worker), Some(bench)) =
                (pool.workers.get(index), self.benches.get_mut(index))
            else {
                continue;
            };
            let units = worker.units.load(Ordering::Relaxed) as u64;
            let each = worker.busy.load(Ordering::Relaxed).checked_div(units);
            let share = each.map(|each| ThreadAccount {
                brought: units * each.min(mine),
                cost: worker.end.load(Ordering::Relaxed).saturating_sub(end),
            });
            bench.enter(end, share.unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(count: usize) -> Vec<AtomicUsize> {
        (0..count).map(|_| AtomicUsize::new(0)).collect()
    }

    fn is_each(counts: &[AtomicUsize], times: usize) -> bool {
        let mut counts = counts.iter().map(|count| count.load(Ordering::SeqCst));
        counts.all(|count| count == times)
    }

    #[test]
    fn the_caller_does_not_wait_for_a_thread_that_has_not_begun() {
        // Workers that are asked to join and never do: the system has not scheduled them yet.
        let pool = ThreadPool::idle(2, 8);
        let benches = [Bench::default(), Bench::default()];
        lock(&pool.book).benches.extend(benches);
        let done = counts(8);
        for _ in 0..3 {
            pool.run(8, &|unit| {
                done[unit].fetch_add(1, Ordering::SeqCst);
            });
        }
        assert!(is_each(&done, 3));
    }

    #[test]
    fn every_unit_is_done_once_by_threads_that_sleep_and_wake() {
        let pool = ThreadPool::start(3, 8);
        let done = counts(8);
        for round in 0..500 {
            pool.run(8, &|unit| {
                if (round + unit) % 50 == 0 {
                    thread::sleep(Duration::from_micros(300));
                }
                done[unit].fetch_add(1, Ordering::SeqCst);
            });
        }
        assert!(is_each(&done, 500));
    }

    #[test]
    fn a_second_caller_does_its_work_itself() {
        let pool = ThreadPool::start(2, 4);
        let done = counts(4);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        pool.run(4, &|unit| {
                            done[unit].fetch_add(1, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert!(is_each(&done, 900));
    }

    #[test]
    fn a_panic_comes_after_all_other_units_and_leaves_the_pool_usable() {
        let pool = ThreadPool::start(2, 4);
        for bad in 0..4 {
            let done = counts(4);
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(4, &|unit| {
                    assert_ne!(unit, bad, "in a unit");
                    done[unit].fetch_add(1, Ordering::SeqCst);
                });
            }));
            assert!(result.is_err());
            let sum: usize = done.iter().map(|count| count.load(Ordering::SeqCst)).sum();
            assert_eq!(sum, 3);
        }
        let done = counts(4);
        pool.run(4, &|unit| {
            done[unit].fetch_add(1, Ordering::SeqCst);
        });
        assert!(is_each(&done, 1));
    }
}
