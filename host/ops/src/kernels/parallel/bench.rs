//! Which threads are left out of a region: those that recently cost more time than they saved.
//!
//! On a machine with other load a thread is preempted in the middle of a unit, for milliseconds, and the caller waits
//! for it. What a thread *brought* is the time that the caller would have needed for its units; what it *cost* is the
//! time that the caller waited for it. A thread whose costs exceed its gains is benched, [`GROWTH`] times as long each
//! time while it stays in debt, so that trying it again costs little; once the machine is idle again, its debt is soon
//! paid, and one interruption among thousands of regions changes next to nothing.

/// Shortest time on the bench, in nanoseconds: a few time slices of the system.
const SHORTEST: u64 = 8_000_000;

/// Factor from one time on the bench to the next.
const GROWTH: u64 = 4;

/// Longest time on the bench, in nanoseconds.
///
/// After it, and a short time to pay its debt, a thread joins again on a machine that has become idle.
const LONGEST: u64 = 640_000_000;

/// What a thread may cost beyond what it brought before it is benched, in nanoseconds.
///
/// Even on an idle machine the caller waits for the last unit of a region, by as much as units differ in length.
const CREDIT: i64 = 1_000_000;

/// Limit of what counts as brought, in nanoseconds: a long good time doesn't pay for a long bad one.
const SAVINGS: i64 = 2_000_000;

/// The largest debt, in nanoseconds.
const LARGEST_DEBT: i64 = 20_000_000;

/// What one thread brought and cost in one region, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadAccount {
    /// The time that the caller would have needed for its units.
    pub(super) brought: u64,
    /// The time that the caller waited for it when nothing else was left.
    pub(super) cost: u64,
}

/// Account of one worker thread.
#[derive(Debug, Default)]
pub(super) struct Bench {
    /// What it brought less twice what it cost since it was last benched, at most [`SAVINGS`].
    recent: i64,
    /// The same over the whole time, between -[`LARGEST_DEBT`] and 0.
    debt: i64,
    /// End of its time on the bench, in nanoseconds of the pool's clock.
    until: u64,
    /// Length of its last time on the bench; 0 once the debt from then is paid.
    last: u64,
}

impl Bench {
    /// Whether the thread may join a region that begins at `now`.
    pub(super) fn may_join(&self, now: u64) -> bool {
        now >= self.until
    }

    /// Records a region that ended at `now`.
    pub(super) fn enter(&mut self, now: u64, share: ThreadAccount) {
        let of =
            |time: u64| i64::try_from(time).map_or(LARGEST_DEBT, |time| time.min(LARGEST_DEBT));
        // Twice: a thread that brings no more than it costs takes a core from other programs for nothing.
        let change = of(share.brought) - 2 * of(share.cost);
        self.recent = (self.recent + change).min(SAVINGS);
        self.debt = (self.debt + change).clamp(-LARGEST_DEBT, 0);
        if self.recent < -CREDIT {
            self.last = (GROWTH * self.last).clamp(SHORTEST, LONGEST);
            self.until = now + self.last;
            self.recent = 0;
        } else if self.debt == 0 {
            self.last = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: ThreadAccount = ThreadAccount {
        brought: 100_000,
        cost: 5_000,
    };
    const INTERRUPTED: ThreadAccount = ThreadAccount {
        brought: 100_000,
        cost: 4_000_000,
    };

    /// Runs regions 100 µs apart, and returns how many of them the thread joined.
    fn joined(bench: &mut Bench, now: &mut u64, shares: &[ThreadAccount]) -> usize {
        let mut count = 0;
        for share in shares {
            *now += 100_000;
            if bench.may_join(*now) {
                *now += share.cost;
                bench.enter(*now, *share);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn an_idle_machine_keeps_all_threads() {
        let (mut bench, mut now) = (Bench::default(), 0);
        assert_eq!(joined(&mut bench, &mut now, &vec![GOOD; 1000]), 1000);
    }

    #[test]
    fn one_interruption_costs_a_few_regions() {
        let (mut bench, mut now) = (Bench::default(), 0);
        let mut shares = vec![GOOD; 1000];
        shares[500] = INTERRUPTED;
        let count = joined(&mut bench, &mut now, &shares);
        assert!((900..1000).contains(&count), "{count}");
    }

    #[test]
    fn on_a_busy_machine_a_thread_is_tried_less_and_less_and_comes_back_when_it_is_idle() {
        let (mut bench, mut now) = (Bench::default(), 0);
        let shares: Vec<ThreadAccount> = [vec![GOOD; 9], vec![INTERRUPTED]].concat().repeat(2000);
        let count = joined(&mut bench, &mut now, &shares);
        assert!(count < 500, "{count}");
        let count = joined(&mut bench, &mut now, &vec![GOOD; 20_000]);
        assert!(count > 12_000, "{count}");
        assert_eq!(bench.last, 0, "the debt is paid");
    }
}
