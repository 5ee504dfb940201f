//! Batches prepared in the background, and handed out in their order whoever prepared them.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::{Batch, Dataset, Error};

/// The batches of a pass over a data set, each prepared once and handed out in order.
///
/// What a batch has depends on its samples and the epoch alone, so the number of threads changes no
/// bit. Dropped before its end, it waits for the batches under way and drops the rest.
pub struct Loader {
    shared: Arc<Shared>,
    /// None: batches are prepared when they are asked for.
    workers: Vec<JoinHandle<()>>,
    next: usize,
}

/// How batches are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// So many threads in the background; with 0 the caller's own prepares each batch when it is
    /// asked for.
    pub threads: usize,
    /// So many batches wait at most, at least 1.
    pub ahead: usize,
}

impl Default for Preparation {
    fn default() -> Self {
        Preparation {
            threads: 1,
            ahead: 2,
        }
    }
}

/// What is to be prepared: the samples of each batch are a range of the order.
struct Work {
    data: Arc<dyn Dataset>,
    order: Vec<u32>,
    batches: Vec<Range<usize>>,
    epoch: u64,
}

struct Shared {
    work: Work,
    ahead: usize,
    state: Mutex<State>,
    /// A batch was handed out, or the end has come.
    room: Condvar,
    /// A batch is ready.
    ready: Condvar,
}

#[derive(Default)]
struct State {
    /// The first batch that nobody prepares yet.
    next: usize,
    handed_out: usize,
    ready: BTreeMap<usize, Result<Batch, Error>>,
    is_over: bool,
}

impl Loader {
    /// Begins to prepare `batches`, ranges of `order`, for an epoch.
    pub fn new(
        data: Arc<dyn Dataset>,
        order: Vec<u32>,
        batches: Vec<Range<usize>>,
        epoch: u64,
        preparation: Preparation,
    ) -> Loader {
        let threads = preparation.threads.min(batches.len());
        let shared = Arc::new(Shared {
            work: Work {
                data,
                order,
                batches,
                epoch,
            },
            ahead: preparation.ahead.max(1),
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
        // Where the system gives no more threads, those that are there do it, or the caller's own.
        let workers = (0..threads).map_while(|index| spawn(index).ok()).collect();
        Loader {
            shared,
            workers,
            next: 0,
        }
    }

    /// The samples of the next batch, or nothing at the end.
    pub fn next_indices(&self) -> Option<&[u32]> {
        self.shared.work.indices(self.next)
    }

    /// The next batch, or nothing at the end.
    pub fn next_batch(&mut self) -> Option<Result<Batch, Error>> {
        self.next_indices()?;
        let index = self.next;
        self.next += 1;
        if self.workers.is_empty() {
            return Some(self.shared.work.gather(index));
        }
        let mut state = self.shared.lock();
        let batch = loop {
            if let Some(batch) = state.ready.remove(&index) {
                break batch;
            }
            state = wait(&self.shared.ready, state);
        };
        state.handed_out = self.next;
        drop(state);
        self.shared.room.notify_one();
        Some(batch)
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.room.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches what panics in a data set; there is nothing else to lose.
            drop(worker.join());
        }
    }
}

impl Work {
    fn indices(&self, batch: usize) -> Option<&[u32]> {
        self.order.get(self.batches.get(batch)?.clone())
    }

    /// The batch; a panic of the data set's is an error, so that nobody waits for ever.
    fn gather(&self, batch: usize) -> Result<Batch, Error> {
        let indices = self.indices(batch).unwrap_or_default();
        let gathered = catch_unwind(AssertUnwindSafe(|| self.data.gather(indices, self.epoch)));
        gathered.unwrap_or_else(|panic| Err(Error::Panicked(words(panic.as_ref()))))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker's life.
    fn prepare(&self) {
        let mut state = self.lock();
        loop {
            if state.is_over || state.next >= self.work.batches.len() {
                return;
            }
            if state.next >= state.handed_out + self.ahead {
                state = wait(&self.room, state);
                continue;
            }
            let index = state.next;
            state.next += 1;
            drop(state);
            let batch = self.work.gather(index);
            state = self.lock();
            state.ready.insert(index, batch);
            self.ready.notify_one();
        }
    }
}

fn wait<'a>(condition: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
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
