//! Several ranks in a scripted run: processes that train together, as the hook sees them.

use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::Value;

use super::failed::Failed;
use super::script::ScriptedRun;
use super::seen::Seen;
use sconce_plugin_api::HookKind;

impl ScriptedRun {
    /// Makes this one of several ranks. Default: rank 0 of 1.
    ///
    /// `gather` answers a hook that gathers: from its own bytes to those of all ranks, in their order, each with the same
    /// length. [`drive_ranks`](ScriptedRun::drive_ranks) lets instances of the hook answer each other instead.
    pub fn with_ranks(
        mut self,
        rank: usize,
        size: usize,
        gather: impl Fn(&[u8]) -> Vec<u8> + 'static,
    ) -> Self {
        self.ranks.rank = rank;
        self.ranks.size = size.max(1);
        self.ranks.gather = Rc::new(move |own| Ok(gather(own)));
        self
    }

    /// Sets in which iterations (from 0) the batch repeats one of rank 0, because there is none left for this rank.
    pub fn repeats(mut self, is_repeated: impl Fn(u64) -> bool + 'static) -> Self {
        self.ranks.repeats = Rc::new(is_repeated);
        self
    }

    /// Drives an instance of a hook on each of `size` ranks, which exchange what they gather.
    ///
    /// `script` makes the run of the rank with this number: the batches that it sees. The results are in the order of
    /// ranks.
    ///
    /// # Errors
    ///
    /// Those of the first rank that fails. If one ends while others wait for it, their calls fail too.
    pub fn drive_ranks<H: HookKind>(
        config: &Value,
        size: usize,
        script: impl Fn(usize) -> ScriptedRun + Sync,
    ) -> Result<Vec<Seen>, Failed> {
        let meeting = Arc::new(Meeting::new(size));
        let results: Vec<Result<Seen, Failed>> = thread::scope(|scope| {
            let drive = |rank: usize| {
                let (meeting, script) = (Arc::clone(&meeting), &script);
                move || {
                    let member = Rc::new(Member { meeting, rank });
                    let mut run = script(rank);
                    run.ranks.rank = rank;
                    run.ranks.size = size;
                    let gathering = Rc::clone(&member);
                    run.ranks.gather = Rc::new(move |own| gathering.meeting.gather(rank, own));
                    run.drive::<H>(config.clone())
                }
            };
            let threads: Vec<_> = (0..size).map(|rank| scope.spawn(drive(rank))).collect();
            let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
            joined
                .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        // What failed first is no consequence of another rank's end.
        let is_first = |failed: &Failed| !failed.message.contains(ENDED);
        let mut seen = Vec::new();
        let mut late = None;
        for result in results {
            match result {
                Ok(one) => seen.push(one),
                Err(failed) if is_first(&failed) => return Err(failed),
                Err(failed) => late = late.or(Some(failed)),
            }
        }
        late.map_or(Ok(seen), Err)
    }
}

/// What ranks are told that wait for one that won't come.
const ENDED: &str = "another rank's run has ended";

/// A rank's part in the meeting, which the others don't wait for once it has ended.
struct Member {
    meeting: Arc<Meeting>,
    rank: usize,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.meeting.leave(self.rank);
    }
}

/// Where ranks wait for each other.
struct Meeting {
    state: Mutex<MeetingState>,
    changed: Condvar,
}

struct MeetingState {
    /// Number of the exchange.
    round: u64,
    /// What each rank has brought.
    parts: Vec<Option<Vec<u8>>>,
    /// What the last exchange has given.
    all: Result<Vec<u8>, String>,
    has_ended: Option<usize>,
}

impl Meeting {
    fn new(size: usize) -> Meeting {
        Meeting {
            state: Mutex::new(MeetingState {
                round: 0,
                parts: vec![None; size],
                all: Ok(Vec::new()),
                has_ended: None,
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, MeetingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gather(&self, rank: usize, own: &[u8]) -> Result<Vec<u8>, String> {
        let mut state = self.state();
        let round = state.round;
        if let Some(part) = state.parts.get_mut(rank) {
            *part = Some(own.to_vec());
        }
        if state.parts.iter().all(Option::is_some) {
            let parts: Vec<_> = state.parts.iter_mut().filter_map(Option::take).collect();
            let same = parts.iter().all(|part| part.len() == own.len());
            state.all = if same {
                Ok(parts.concat())
            } else {
                Err("ranks gather different numbers of bytes".to_owned())
            };
            state.round += 1;
            self.changed.notify_all();
            return state.all.clone();
        }
        while state.round == round {
            if let Some(ended) = state.has_ended {
                return Err(format!("{ENDED}: that of rank {ended}"));
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.all.clone()
    }

    fn leave(&self, rank: usize) {
        let mut state = self.state();
        state.has_ended = state.has_ended.or(Some(rank));
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use sconce_plugin_api::prelude::*;

    /// Publishes how many samples all ranks have seen, and the order in which it got them.
    struct Counter(u64);

    #[hook(name = "counter", about = "Counts samples.", ranks = "all")]
    impl Hook for Counter {
        fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
            Ok(Counter(0))
        }

        fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
            if task.phase() == Phase::Train && !task.ranks().is_repeated() {
                self.0 += task.batch_size();
            }
            Ok(())
        }

        fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
            if task.phase() != Phase::Train {
                return Ok(());
            }
            let ranks = task.ranks();
            let mut sums = [self.0, 1];
            ranks.sum_u64(&mut sums)?;
            let mut float = [-0.0, 0.5];
            ranks.sum_f64(&mut float)?;
            let texts = ranks.gather("ab".repeat(ranks.rank()).as_bytes())?;
            let values = ranks.gather_values(&(ranks.rank(), 0.1))?;
            let texts: Vec<String> = (texts.into_iter())
                .map(|text| String::from_utf8(text).unwrap_or_default())
                .collect();
            task.publish("seen", &json!([sums, float, texts, values]), Keep::Run)
        }
    }

    #[test]
    fn instances_on_all_ranks_gather_the_same_in_the_order_of_ranks() {
        let script = |rank| {
            let run = ScriptedRun::new().epochs(1).iterations(3).batch_size(2);
            run.repeats(move |iteration| rank == 2 && iteration == 2)
        };
        let all = ScriptedRun::drive_ranks::<Counter>(&json!({}), 3, script).expect("it works");
        for seen in &all {
            let values = json!([
                [16, 3],
                [-0.0, 1.5],
                ["", "ab", "abab"],
                [[0, 0.1], [1, 0.1], [2, 0.1]]
            ]);
            assert_eq!(seen.value("seen"), Some(&values));
        }
        let alone = ScriptedRun::new().epochs(1).drive::<Counter>(Value::Null);
        let alone = alone.expect("it works");
        let values = json!([[8, 1], [-0.0, 0.5], [""], [[0, 0.1]]]);
        assert_eq!(alone.value("seen"), Some(&values));
    }

    #[test]
    fn a_script_answers_for_the_other_ranks() {
        let answer = |own: &[u8]| [own, own].concat();
        let run = ScriptedRun::new().epochs(1).with_ranks(1, 2, answer);
        let seen = run.drive::<Counter>(Value::Null).expect("it works");
        assert_eq!(
            seen.value("seen").map(|value| &value[0]),
            Some(&json!([16, 2]))
        );
        let run = ScriptedRun::new().with_ranks(1, 2, <[u8]>::to_vec);
        let failed = run
            .drive::<Counter>(Value::Null)
            .expect_err("too few bytes");
        assert!(
            failed.message.starts_with("the script gathers 16 bytes"),
            "{failed}"
        );
    }

    /// Gathers where its configuration says.
    struct Gatherer(Point);

    #[derive(Deserialize, JsonSchema)]
    struct At {
        point: u32,
    }

    #[hook(name = "gatherer", about = "Gathers.", reads = ranks, ranks = "all")]
    impl Hook for Gatherer {
        type Config = At;

        fn new(config: At, _setup: &Setup<'_>) -> Result<Self> {
            Point::from_number(config.point)
                .map(Gatherer)
                .ok_or_else(|| HookError::new("no such point"))
        }

        fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
            self.gather(task)
        }

        fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
            self.gather(task)
        }
    }

    impl Gatherer {
        fn gather(&self, task: &TaskView<'_>) -> Result<()> {
            if task.point() == Some(self.0) && (task.ranks().rank() == 0 || task.epoch() == 0) {
                task.ranks().gather(&[])?;
            }
            Ok(())
        }
    }

    #[test]
    fn ranks_exchange_nothing_where_they_may_not_meet() {
        let drive = |point: Point| {
            let config = json!({"point": point.number()});
            ScriptedRun::drive_ranks::<Gatherer>(&config, 2, |_| ScriptedRun::new())
        };
        let failed = drive(Point::AfterLoss).expect_err("it is no meeting");
        assert!(
            failed
                .message
                .starts_with("ranks exchange nothing at `after_loss` (train)"),
            "{failed}"
        );
        // Rank 1 doesn't come in the second epoch.
        let failed = drive(Point::BeforeUpdate).expect_err("one is missing");
        assert_eq!(
            failed.message,
            "another rank's run has ended: that of rank 1"
        );
    }

    /// Changes gradients and gathers, on the first rank alone.
    struct Careless(bool);

    #[derive(Deserialize, JsonSchema)]
    struct What {
        gathers: bool,
    }

    #[hook(name = "careless", about = "Changes gradients.")]
    impl Hook for Careless {
        type Config = What;

        fn new(config: What, _setup: &Setup<'_>) -> Result<Self> {
            Ok(Careless(config.gathers))
        }

        fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
            if self.0 {
                return task.ranks().gather(&[]).map(drop);
            }
            task.for_each_gradient(|mut gradient| gradient.map::<f32>(|g| g / 2.0))
        }
    }

    #[test]
    fn a_hook_of_the_first_rank_changes_nothing_that_all_share() {
        let drive = |run: ScriptedRun, gathers: bool| {
            run.drive::<Careless>(json!({"gathers": gathers}))
                .map_err(|failed| failed.message)
        };
        let several = || ScriptedRun::new().with_ranks(0, 4, |own| own.repeat(4));
        assert_eq!(
            drive(several(), false).err().as_deref(),
            Some(
                "the hook `careless` changes gradients but runs on the first rank alone: \"ranks\": \"all\" in its \
                 entry makes it run on all"
            )
        );
        assert!(drive(ScriptedRun::new(), false).is_ok(), "alone");
        // Gathering is refused in one process too, so that it is noticed.
        for run in [several(), ScriptedRun::new()] {
            let message = drive(run, true).err().unwrap_or_default();
            assert!(
                message.starts_with("the hook `careless` gathers but runs"),
                "{message}"
            );
        }
    }
}
