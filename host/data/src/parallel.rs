//! Work on many items by several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Number of threads where none is given: one for each core.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Returns what `work` makes of each item, in order. It must not panic.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(place) else {
                return done;
            };
            done.push((place, work(item)));
        }
    };
    let mut done = thread::scope(|scope| {
        let others = threads.min(items.len()).saturating_sub(1);
        // If the system refuses more threads, this one does their work.
        let others: Vec<_> = (0..others)
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, some).ok())
            .collect();
        let mut done = some();
        for other in others {
            done.extend(other.join().unwrap_or_default());
        }
        done
    });
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, made)| made).collect()
}
