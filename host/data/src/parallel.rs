//! Work on many items by several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Number of threads where none is given: one for each core.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Returns what `work` makes of each item, in order. If it panics on a thread, so does this call: no item is left out.
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
            let joined = other.join();
            done.extend(joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_none_is_lost_by_a_panic() {
        let items: Vec<u32> = (0..1000).collect();
        for threads in [0, 1, 2, 7] {
            let doubled = map(&items, threads, |item| 2 * item);
            assert!(
                doubled
                    .iter()
                    .zip(&items)
                    .all(|(made, item)| *made == 2 * item)
            );
            assert_eq!(doubled.len(), items.len());
            let lost = std::panic::catch_unwind(|| {
                map(&items, threads, |item| assert_ne!(*item, 500)).len()
            });
            assert!(lost.is_err(), "{threads} threads");
        }
    }
}
