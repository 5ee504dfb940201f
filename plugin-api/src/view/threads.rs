//! Parallel work on the host's threads.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::TaskView;
use crate::ext::ThreadsClient;
use crate::fence::{Caught, catch_part};

/// Fewest elements per segment for which another thread pays off.
const WORTHWHILE: usize = 16_384;

impl<'task> TaskView<'task> {
    /// The host's threads, for expensive work such as a pass over all parameters.
    ///
    /// While a hook is called, it has the processor's cores to itself. Threads of its own would compete for
    /// them with the host's threads, which busy-wait for their next work.
    pub fn threads(&self) -> Threads<'task> {
        Threads {
            host: self.host.threads().ok(),
        }
    }
}

/// The host's threads, for the duration of a call.
///
/// If the host doesn't provide them, all work is done on the calling thread.
///
/// ```
/// # use sconce_plugin_api::prelude::*;
/// fn follow(task: &TaskView<'_>, mean: &mut [f32]) -> Result<()> {
///     let now = task.parameter("fc1.weight")?;
///     task.threads().zip(mean, now.as_slice::<f32>()?, |mean, now| {
///         for (mean, now) in mean.iter_mut().zip(now) {
///             *mean += 0.5 * (now - *mean);
///         }
///     });
///     Ok(())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Threads<'task> {
    host: Option<ThreadsClient<'task>>,
}

impl Threads<'_> {
    /// Number of threads, at least 1, including the calling one.
    pub fn count(&self) -> usize {
        self.host.map_or(1, |host| host.count().max(1) as usize)
    }

    /// Calls `part` once for each index below `parts`, in parallel, and returns when all calls are done.
    ///
    /// Any thread may call any part, so the results must not depend on the assignment.
    ///
    /// # Panics
    ///
    /// If a part panics: with the message and location of the first panic, as if it had happened here. Parts
    /// not yet started by then are skipped.
    /// not begun by then are left out.
    pub fn run(&self, parts: usize, part: impl Fn(usize) + Sync) {
        let (Some(host), Ok(count)) = (self.host, u32::try_from(parts)) else {
            return (0..parts).for_each(part);
        };
        if parts <= 1 {
            return (0..parts).for_each(part);
        }
        let work = PartWork {
            part: &part,
            caught: Mutex::new(None),
        };
        let data = (&raw const work).cast();
        // SAFETY: `work` outlives the host's call, during which its threads share it.
        let done = unsafe { host.run(count, one, data) };
        let caught = work.caught.into_inner();
        if let Some(caught) = caught.unwrap_or_else(PoisonError::into_inner) {
            caught.go_on();
        }
        if done.is_err() {
            (0..parts).for_each(part);
        }
    }

    /// Calls `work` for corresponding segments of both slices, in parallel if they are large.
    ///
    /// Together the segments cover both slices up to the length of the shorter one. Intended for elementwise
    /// work, since the segment boundaries depend on the number of threads.
    ///
    /// # Panics
    ///
    /// If `work` panics, as for [`run`](Threads::run).
    pub fn zip<T: Send, U: Sync>(
        &self,
        target: &mut [T],
        source: &[U],
        work: impl Fn(&mut [T], &[U]) + Sync,
    ) {
        let length = target.len().min(source.len());
        self.chunks(&mut target[..length], |range, target| {
            work(target, &source[range]);
        });
    }

    /// Calls `work` for segments of one slice, like [`zip`](Threads::zip).
    ///
    /// # Panics
    ///
    /// If `work` panics, as for [`run`](Threads::run).
    pub fn each<T: Send>(&self, target: &mut [T], work: impl Fn(&mut [T]) + Sync) {
        self.chunks(target, |_, target| work(target));
    }

    /// Calls `work` for segments of a slice, with each segment's range.
    fn chunks<T: Send>(&self, target: &mut [T], work: impl Fn(Range<usize>, &mut [T]) + Sync) {
        let length = target.len();
        let parts = self.count().min(length / WORTHWHILE).max(1);
        let start = Start(target.as_mut_ptr());
        self.run(parts, |part| {
            let place = |part: usize| length / parts * part + (length % parts).min(part);
            let range = place(part)..place(part + 1);
            // SAFETY: the ranges of different parts are disjoint and within the slice, which is borrowed
            // until all parts are done.
            let target = unsafe {
                let first = start.pointer().add(range.start);
                std::slice::from_raw_parts_mut(first, range.len())
            };
            work(range, target);
        });
    }
}

/// State shared by all parts of one `run`.
struct PartWork<'a> {
    part: &'a (dyn Fn(usize) + Sync),
    /// The first panic, if any.
    caught: Mutex<Option<Caught>>,
}

/// Runs one part; the callback that the host's threads execute.
///
/// # Safety
///
/// `data` must point to a live [`PartWork`].
unsafe extern "C" fn one(data: *const c_void, index: u32) {
    // SAFETY: the caller guarantees that `data` points to a live `PartWork`.
    let work = unsafe { &*data.cast::<PartWork<'_>>() };
    let caught = || work.caught.lock().unwrap_or_else(PoisonError::into_inner);
    if caught().is_some() {
        return;
    }
    if let Err(panic) = catch_part(|| (work.part)(index as usize)) {
        let mut first = caught();
        if first.is_none() {
            *first = Some(panic);
        } else {
            panic.forget();
        }
    }
}

/// Start of a slice that several threads write to, each in its own range.
struct Start<T>(*mut T);

// SAFETY: each thread accesses only its own range of the slice.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    fn pointer(&self) -> *mut T {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::ext::{Part, PartAbi, Refusal, Served, ThreadsTable};

    /// A host with three threads that starts new ones for each call.
    /// A host of three threads.
    struct Three;

    /// A host that refuses.
    struct Refusing;

    // SAFETY: there are no contexts.
    unsafe impl Served for Three {
        unsafe fn of<'a>(_context: *const c_void) -> Option<&'a Three> {
            Some(&Three)
        }
    }

    // SAFETY: there are no contexts.
    unsafe impl Served for Refusing {
        unsafe fn of<'a>(_context: *const c_void) -> Option<&'a Refusing> {
            Some(&Refusing)
        }
    }

    impl crate::ext::Threads for Three {
        fn count(&self) -> u32 {
            3
        }

        unsafe fn run(
            &self,
            parts: u32,
            part: PartAbi,
            data: *const c_void,
        ) -> Result<(), Refusal> {
            // SAFETY: the caller guarantees that `part` may be called with `data` on any thread.
            let part = unsafe { Part::new(part, data) };
            std::thread::scope(|scope| {
                for index in 0..parts {
                    let part = &part;
                    // SAFETY: each index below `parts` is passed once.
                    scope.spawn(move || unsafe { part.call(index) });
                }
            });
            Ok(())
        }
    }

    impl crate::ext::Threads for Refusing {
        fn count(&self) -> u32 {
            3
        }

        unsafe fn run(&self, _: u32, _: PartAbi, _: *const c_void) -> Result<(), Refusal> {
            Err(Refusal::invalid(""))
        }
    }

    static TABLE: ThreadsTable = ThreadsTable::of::<Three>();
    static REFUSING: ThreadsTable = ThreadsTable::of::<Refusing>();

    fn threads(table: Option<&'static ThreadsTable>) -> Threads<'static> {
        Threads {
            // SAFETY: both hosts have no contexts.
            host: table.map(|table| unsafe { ThreadsClient::new(table, std::ptr::null()) }),
        }
    }

    #[test]
    fn every_part_is_done_once_whatever_the_host_lends() {
        for table in [None, Some(&TABLE), Some(&REFUSING)] {
            for parts in [0, 1, 2, 7] {
                let done: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                threads(table).run(parts, |part| {
                    done[part].fetch_add(1, Ordering::SeqCst);
                });
                assert!(done.iter().all(|count| count.load(Ordering::SeqCst) == 1));
            }
        }
    }

    #[test]
    fn pieces_of_slices_are_all_of_the_shorter_one() {
        for table in [None, Some(&TABLE)] {
            for (length, more) in [(0, 5), (10, 0), (50_000, 3), (3 * WORTHWHILE + 1, 0)] {
                let calls = AtomicUsize::new(0);
                let mut target = vec![1_u64; length + more];
                let source: Vec<u64> = (0..length as u64).collect();
                threads(table).zip(&mut target, &source, |target, source| {
                    calls.fetch_add(1, Ordering::SeqCst);
                    for (target, source) in target.iter_mut().zip(source) {
                        *target += source;
                    }
                });
                let (done, left) = target.split_at(length);
                assert!(
                    done.iter()
                        .zip(1_u64..)
                        .all(|(found, exact)| *found == exact)
                );
                assert!(left.iter().all(|&untouched| untouched == 1));
                threads(table).each(&mut target, |target| target.fill(7));
                assert!(target.iter().all(|&found| found == 7));
                let pieces = if table.is_some() {
                    (length / WORTHWHILE).clamp(1, 3)
                } else {
                    1
                };
                assert_eq!(calls.into_inner(), pieces);
            }
        }
    }

    #[test]
    fn a_panic_in_a_part_is_the_callers() {
        for table in [None, Some(&TABLE)] {
            let panicked = std::panic::catch_unwind(|| {
                threads(table).run(4, |part| assert!(part != 2, "part {part} fails"));
            });
            let payload = panicked.expect_err("a part panicked");
            let text = payload.downcast_ref::<String>().map(String::as_str);
            assert_eq!(text, Some("part 2 fails"));
        }
    }
}
