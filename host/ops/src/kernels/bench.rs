//! Which threads a region does without: those that lately cost more than they brought.
//!
//! On a machine with other work a thread is interrupted in the middle of a unit, for milliseconds, and the caller
//! waits for it. What a thread *brought* is the time that the caller would have needed for its units; what it *cost* is the time
//! that the caller waited for it. A thread whose costs outrun its gains goes to the bench, each time [`GROWTH`] times as
//! long while it stays in debt, so that trying it again costs little; where the machine is idle again it soon has paid
//! its debt, and one interruption among thousands of regions changes next to nothing.

/// The shortest time on the bench, in nanoseconds: a few time slices of the system.
const SHORTEST: u64 = 8_000_000;

/// How much longer each time on the bench is than the one before.
const GROWTH: u64 = 4;

/// The longest: after it, and a moment to pay its debt, a thread joins again on a machine that has become idle.
const LONGEST: u64 = 640_000_000;

/// What a thread may cost beyond what it brought before it goes to the bench, in nanoseconds. On an idle machine the last unit
/// of a region is waited for too, by as much as units are unequal.
const CREDIT: i64 = 1_000_000;

/// The most that counts as brought beforehand, in nanoseconds: a long good time doesn't pay for a long bad one.
const SAVINGS: i64 = 2_000_000;

/// The largest debt, in nanoseconds.
const LARGEST_DEBT: i64 = 20_000_000;

/// What one thread brought and cost in one region, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// The time that the caller would have needed for its units.
    pub(super) brought: u64,
    /// The time that the caller waited for it when nothing else was left.
    pub(super) cost: u64,
}

/// The account of one thread.
#[derive(Debug, Default)]
pub(super) struct Bench {
    /// What it brought less twice what it cost since it was benched the last time, [`SAVINGS`] at most.
    recent: i64,
    /// The same over all times, between -[`LARGEST_DEBT`] and 0.
    debt: i64,
    /// Until when it is left out, in nanoseconds of the pool's clock.
    until: u64,
    /// How long it was left out the last time; 0 where it has no debt from then.
    last: u64,
}

impl Bench {
    /// Whether the thread may join a region that begins at `now`.
    pub(super) fn may_join(&self, now: u64) -> bool {
        now >= self.until
    }

    /// Enters a region that ended at `now`.
    pub(super) fn enter(&mut self, now: u64, share: Share) {
        let of =
            |time: u64| i64::try_from(time).map_or(LARGEST_DEBT, |time| time.min(LARGEST_DEBT));
        // Twice: a thread that brings no more than it costs takes a core from others for nothing.
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

    const GOOD: Share = Share {
        brought: 100_000,
        cost: 5_000,
    };
    const INTERRUPTED: Share = Share {
        brought: 100_000,
        cost: 4_000_000,
    };

    /// Regions one after the other, each of `each` nanoseconds; how many of them the thread joined.
    fn joined(bench: &mut Bench, now: &mut u64, shares: &[Share]) -> usize {
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
        let shares: Vec<Share> = [vec![GOOD; 9], vec![INTERRUPTED]].concat().repeat(2000);
        let count = joined(&mut bench, &mut now, &shares);
        assert!(count < 500, "{count}");
        let count = joined(&mut bench, &mut now, &vec![GOOD; 20_000]);
        assert!(count > 12_000, "{count}");
        assert_eq!(bench.last, 0, "the debt is paid");
    }
}
