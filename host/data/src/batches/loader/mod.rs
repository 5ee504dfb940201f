//! Batches prepared in the background and returned in order, whichever thread prepared them.

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::order::Order;
use crate::{Batch, DataError, Dataset};

/// Loader of the batches of a pass over a data set, each prepared once and returned in order.
///
/// A batch depends only on its samples and the epoch, so that the number of threads does not change a
/// bit. Dropping the loader waits for batches in progress and discards the rest.
pub struct Loader {
    shared: Arc<PrefetchQueue>,
    /// Empty if batches are prepared on demand.
    workers: Vec<JoinHandle<()>>,
    next: usize,
}

/// Options for preparing batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// Number of background threads; with 0 the calling thread prepares each batch on demand.
    pub threads: usize,
    /// Maximum number of batches prepared ahead, at least 1.
    pub ahead: usize,
    /// Maximum size in bytes of the batches prepared ahead if they are more than [`ahead`](Self::ahead). Of small ones
    /// many are prepared at a time, so that a thread is not woken for each: that takes longer than a small model's step.
    pub small: usize,
}

impl Preparation {
    /// The default of [`small`](Self::small): what stays in a core's cache.
    pub const SMALL: usize = 1 << 20;
}

impl Default for Preparation {
    fn default() -> Self {
        Preparation {
            threads: 1,
            ahead: 2,
            small: Preparation::SMALL,
        }
    }
}

/// The batches to prepare: the samples of each are a range of the order.
struct PrefetchPlan {
    data: Arc<dyn Dataset>,
    order: Order,
    batches: Vec<Range<usize>>,
    epoch: u64,
}

struct PrefetchQueue {
    work: PrefetchPlan,
    ahead: usize,
    small: usize,
    state: Mutex<PrefetchState>,
    /// Signals that enough batches were taken, or that the loader is being dropped.
    room: Condvar,
    /// Signals that a batch is ready while one is awaited.
    ready: Condvar,
}

#[derive(Default)]
struct PrefetchState {
    /// Index of the first batch that no thread has started.
    next: usize,
    handed_out: usize,
    ready: BTreeMap<usize, Result<Batch, DataError>>,
    /// Size in bytes of the largest batch so far; 0 before the first.
    size: usize,
    /// Number of workers that wait for room.
    waiting: usize,
    /// Whether the loader's owner waits for a batch.
    is_awaited: bool,
    is_over: bool,
}

impl Loader {
    /// Starts preparing `batches`, ranges of `order`, for an epoch.
    pub fn new(
        data: Arc<dyn Dataset>,
        order: impl Into<Order>,
        batches: Vec<Range<usize>>,
        epoch: u64,
        preparation: Preparation,
    ) -> Loader {
        let threads = preparation.threads.min(batches.len());
        let shared = Arc::new(PrefetchQueue {
            work: PrefetchPlan {
                data,
                order: order.into(),
                batches,
                epoch,
            },
            ahead: preparation.ahead.max(1),
            small: preparation.small,
            state: Mutex::default(),
            room: Condvar::new(),
            ready: Condvar::new(),
        });
        let spawn = |index| {
            let shared = Arc::clone(&shared);
            let name = format!("loader-{index}");
            thread::Builder::new()
                .name(name)
                .spawn(move || shared.prepare())
        };
        // If the system refuses more threads, the existing ones or the calling thread do the work.
        let workers = (0..threads).map_while(|index| spawn(index).ok()).collect();
        Loader {
            shared,
            workers,
            next: 0,
        }
    }

    /// Returns the indices of the next batch's samples; none at the end.
    pub fn next_indices(&self) -> Option<Cow<'_, [u32]>> {
        self.shared.work.indices(self.next)
    }

    /// Returns the next batch; none at the end.
    pub fn next_batch(&mut self) -> Option<Result<Batch, DataError>> {
        let index = self.next;
        self.shared.work.batches.get(index)?;
        self.next += 1;
        if self.workers.is_empty() {
            return Some(self.shared.work.gather(index));
        }
        let mut state = self.shared.lock();
        let batch = loop {
            if let Some(batch) = state.ready.remove(&index) {
                break batch;
            }
            state.is_awaited = true;
            state = wait(&self.shared.ready, state);
        };
        state.is_awaited = false;
        state.handed_out = self.next;
        let is_room = state.waiting > 0 && self.shared.is_room(&state);
        drop(state);
        if is_room {
            self.shared.room.notify_all();
        }
        Some(batch)
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.room.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches panics of the data set, so that its result is of no interest.
            drop(worker.join());
        }
    }
}

impl PrefetchPlan {
    fn indices(&self, batch: usize) -> Option<Cow<'_, [u32]>> {
        self.order.indices(self.batches.get(batch)?.clone())
    }

    /// Gathers the batch; a panic in the data set becomes an error, so that no thread waits for ever.
    fn gather(&self, batch: usize) -> Result<Batch, DataError> {
        let indices = self.indices(batch).unwrap_or_default();
        let gathered = catch_unwind(AssertUnwindSafe(|| self.data.gather(&indices, self.epoch)));
        gathered.unwrap_or_else(|panic| Err(DataError::Panicked(words(panic.as_ref()))))
    }
}

impl PrefetchQueue {
    fn lock(&self) -> MutexGuard<'_, PrefetchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maximum number of batches prepared ahead.
    fn limit(&self, state: &PrefetchState) -> usize {
        let small = self.small.checked_div(state.size).unwrap_or(0);
        self.ahead.max(small)
    }

    /// Whether workers that wait for room are to continue: once half of many small batches were taken.
    fn is_room(&self, state: &PrefetchState) -> bool {
        let left = state.next - state.handed_out.min(state.next);
        left < self.ahead.max(self.limit(state) / 2)
    }

    /// Main loop of a worker.
    fn prepare(&self) {
        let mut state = self.lock();
        loop {
            if state.is_over || state.next >= self.work.batches.len() {
                return;
            }
            if state.next >= state.handed_out + self.limit(&state) {
                state.waiting += 1;
                while !state.is_over && !self.is_room(&state) {
                    state = wait(&self.room, state);
                }
                state.waiting -= 1;
                continue;
            }
            let index = state.next;
            state.next += 1;
            drop(state);
            let batch = self.work.gather(index);
            state = self.lock();
            let size = batch.as_ref().map_or(0, Batch::bytes);
            state.size = state.size.max(size);
            state.ready.insert(index, batch);
            if state.is_awaited {
                self.ready.notify_one();
            }
        }
    }
}

fn wait<'a>(
    condition: &Condvar,
    state: MutexGuard<'a, PrefetchState>,
) -> MutexGuard<'a, PrefetchState> {
    condition
        .wait(state)
        .unwrap_or_else(PoisonError::into_inner)
}

fn words(panic: &(dyn Any + Send)) -> String {
    let words = panic
        .downcast_ref::<&str>()
        .map(|words| (*words).to_owned());
    let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
    words.unwrap_or_else(|| "a panic without words".to_owned())
}

#[cfg(test)]
mod tests;
