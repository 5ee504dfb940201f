//! What the view knows about the run: the training thread stores numbers, the view's thread copies them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sconce_plugin_api::{Phase, Rule};

use super::curve::Curve;
use crate::metric_board::PhaseMetrics;
use crate::run::{Now, Observer, Profile};

/// Maximum number of metric rows kept.
const MOST_ROWS: usize = 500;

/// Number of marks from which the current pace is computed; one is set every [`MARK_EVERY`] seconds.
const MARKS: usize = 10;
const MARK_EVERY: f64 = 0.5;

/// The state shared by the training and the view.
#[derive(Debug, Default)]
pub(super) struct SharedViewState {
    state: Mutex<ViewState>,
    /// Whether the view wants the timings of the pass in progress.
    wants_times: AtomicBool,
}

/// State of the run.
#[derive(Clone, Debug, Default)]
pub(super) struct ViewState {
    /// Name of the run.
    pub(super) name: String,
    /// Progress of the run; none before its first pass.
    pub(super) now: Option<Now>,
    /// Number of batches in a training pass.
    pub(super) train_batches: u64,
    /// Training loss by iteration.
    pub(super) train_loss: Curve,
    /// Validation loss by training iteration.
    pub(super) val_loss: Curve,
    /// Metrics, in one row for each iteration at which a pass ended.
    pub(super) rows: VecDeque<Arc<Row>>,
    /// Best value of each metric whose name tells whether higher or lower is better, with its iteration.
    pub(super) best: Vec<BestValue>,
    /// Index after the last entry that was compared.
    next_best: usize,
    /// Timings of finished passes, by phase.
    pub(super) times: Vec<(Phase, Profile)>,
    /// Timings of the passes in progress, as of the last request. A validation may take place in the middle
    /// of a training pass.
    pub(super) passes: Vec<(Phase, Profile)>,
    /// Status line of a hook, shown below all messages.
    pub(super) status: String,
    /// Elapsed seconds, iterations and samples over the last few seconds.
    marks: VecDeque<(f64, u64, u64)>,
}

/// Metrics at one iteration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// Number of training iterations finished.
    pub(super) iteration: u64,
    /// Number of training epochs finished, including the fraction of the one in progress.
    pub(super) epoch: f64,
    /// Values by phase and name.
    pub(super) values: Vec<(Phase, String, f64)>,
}

/// A metric's best value so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BestValue {
    pub(super) phase: Phase,
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) iteration: u64,
}

impl SharedViewState {
    /// The initial state of the run of this name.
    pub(super) fn new(name: &str) -> SharedViewState {
        let shared = SharedViewState::default();
        name.clone_into(&mut shared.lock().name);
        shared
    }

    /// Copies the state, and requests the timings of the pass in progress for a later copy.
    pub(super) fn copy(&self) -> ViewState {
        self.wants_times.store(true, Ordering::Relaxed);
        self.lock().clone()
    }

    /// Sets the status line of a hook.
    pub(super) fn set_status(&self, text: &str) {
        text.clone_into(&mut self.lock().status);
    }

    fn lock(&self) -> MutexGuard<'_, ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for SharedViewState {
    fn sees(&self, now: &Now) -> bool {
        self.lock().sees(now);
        // Requests by copies are rare; the flag is checked after every iteration.
        self.wants_times.load(Ordering::Relaxed) && self.wants_times.swap(false, Ordering::Relaxed)
    }

    fn sees_times(&self, phase: Phase, pass: &Profile) {
        let mut state = self.lock();
        state.passes.retain(|(known, _)| *known != phase);
        state.passes.push((phase, pass.clone()));
    }

    fn sees_end(&self, now: &Now, metrics: &PhaseMetrics, pass: &Profile) {
        let values: Vec<(String, f64)> = metrics
            .iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        self.lock().sees_end(now, values, pass);
    }
}

impl ViewState {
    pub(super) fn sees(&mut self, now: &Now) {
        if self
            .now
            .is_some_and(|before| now.iteration < before.iteration)
        {
            self.go_back(now.iteration);
        }
        if now.phase == Phase::Train {
            self.train_batches = now.batches;
            let is_new = self
                .now
                .is_none_or(|before| now.iteration > before.iteration);
            if let Some(loss) = now.loss.filter(|_| is_new) {
                self.train_loss.push(now.iteration as f64, loss);
            }
        }
        if self
            .marks
            .back()
            .is_none_or(|last| now.elapsed - last.0 >= MARK_EVERY)
        {
            self.marks
                .push_back((now.elapsed, now.iteration, now.samples));
            if self.marks.len() > MARKS {
                self.marks.pop_front();
            }
        }
        self.now = Some(*now);
    }

    pub(super) fn sees_end(&mut self, now: &Now, values: Vec<(String, f64)>, pass: &Profile) {
        self.now = Some(*now);
        let phase = now.phase;
        if let Some((_, loss)) = values.iter().find(|(name, _)| name == "loss")
            && phase == Phase::Val
        {
            self.val_loss.push(now.iteration as f64, *loss);
        }
        for (name, value) in &values {
            self.compare(phase, name, *value, now.iteration);
        }
        // The values of a table (`recall/3`) are too many for columns.
        let values = values.into_iter().filter(|(name, _)| !name.contains('/'));
        let values = values.map(|(name, value)| (phase, name, value));
        match self.rows.back_mut() {
            Some(row) if row.iteration == now.iteration => {
                let row = Arc::make_mut(row);
                row.values.retain(|(known, _, _)| *known != phase);
                row.values.extend(values);
            }
            _ => self.rows.push_back(Arc::new(Row {
                iteration: now.iteration,
                epoch: now.iteration as f64 / self.train_batches.max(1) as f64,
                values: values.collect(),
            })),
        }
        if self.rows.len() > MOST_ROWS {
            self.rows.pop_front();
        }
        match self.times.iter_mut().find(|(known, _)| *known == phase) {
            Some((_, times)) => times.add(pass),
            None => self.times.push((phase, pass.clone())),
        }
        self.passes.retain(|(known, _)| *known != phase);
    }

    /// Removes what came later, after a hook has rolled back.
    fn go_back(&mut self, iteration: u64) {
        self.train_loss.cut(iteration as f64);
        self.val_loss.cut(iteration as f64);
        self.rows.retain(|row| row.iteration <= iteration);
        self.marks.clear();
    }

    fn compare(&mut self, phase: Phase, name: &str, value: f64, iteration: u64) {
        let Some(rule) = Rule::of_metric(name) else {
            return;
        };
        // Metrics come in a fixed order, so this is almost always the entry after the last one.
        let is_it = |best: &BestValue| best.phase == phase && best.name == name;
        let next = self.next_best;
        let index = if self.best.get(next).is_some_and(is_it) {
            Some(next)
        } else {
            self.best.iter().position(is_it)
        };
        self.next_best = index.unwrap_or(self.best.len()) + 1;
        match index.and_then(|index| self.best.get_mut(index)) {
            Some(best) if rule.is_better(value, best.value) || best.value.is_nan() => {
                best.value = value;
                best.iteration = iteration;
            }
            Some(_) => {}
            None => self.best.push(BestValue {
                phase,
                name: name.to_owned(),
                value,
                iteration,
            }),
        }
    }

    /// The best value of a metric so far.
    pub(super) fn best_of(&self, phase: Phase, name: &str) -> Option<&BestValue> {
        let mut best = self.best.iter();
        best.find(|best| best.phase == phase && best.name == name)
    }

    /// Timings of a phase, including the pass in progress.
    pub(super) fn times_of(&self, phase: Phase) -> Option<Profile> {
        let done = self.times.iter().find(|(known, _)| *known == phase);
        let under_way = self.passes.iter().find(|(known, _)| *known == phase);
        match (done, under_way) {
            (Some((_, done)), Some((_, pass))) => {
                let mut sum = done.clone();
                sum.add(pass);
                Some(sum)
            }
            (Some((_, one)), None) | (None, Some((_, one))) => Some(one.clone()),
            (None, None) => None,
        }
    }

    /// Training iterations and samples per second, over the last few seconds.
    pub(super) fn pace(&self) -> Option<(f64, f64)> {
        let now = self.now.as_ref()?;
        let (since, iteration, samples) = *self.marks.front()?;
        let seconds = now.elapsed - since;
        if seconds <= 0.0 || now.iteration <= iteration {
            return None;
        }
        let per_second = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        Some((
            per_second(now.iteration, iteration),
            per_second(now.samples, samples),
        ))
    }

    /// The fraction of training that is done, from 0 to 1.
    pub(super) fn done(&self) -> f64 {
        let Some(now) = self.now else { return 0.0 };
        let total = now.epochs.saturating_mul(self.train_batches);
        part(now.iteration, total)
    }
}

/// The fraction `done / total`, from 0 to 1.
pub(super) fn part(done: u64, total: u64) -> f64 {
    if total == 0 {
        return 0.0;
    }
    (done as f64 / total as f64).clamp(0.0, 1.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::run::HookTiming;

    /// Progress after `iteration` iterations of a run of 4 epochs of 10 batches.
    pub(in crate::ui) fn at(phase: Phase, iteration: u64) -> Now {
        Now {
            phase,
            epoch: iteration / 10,
            epochs: 4,
            batch: iteration % 10,
            batches: if phase == Phase::Train { 10 } else { 3 },
            iteration,
            samples: iteration * 64,
            loss: Some(1.0 / (1.0 + iteration as f64)),
            learning_rate: 1e-3,
            elapsed: iteration as f64 * 0.25,
            remaining: Some((40 - iteration) as f64 * 0.25),
        }
    }

    /// Timings of a pass of 2 seconds.
    pub(in crate::ui) fn pass() -> Profile {
        Profile {
            passes: 1,
            total: 2.0,
            data: 0.1,
            forward: 0.5,
            loss: 0.1,
            backward: 0.8,
            update: 0.3,
            waiting: 0.0,
            other: 0.18,
            hooks: vec![HookTiming {
                copies: None,
                name: "console".to_owned(),
                calls: 12,
                seconds: 0.02,
                longest: 0.01,
            }],
        }
    }

    fn values(loss: f64, accuracy: f64) -> Vec<(String, f64)> {
        vec![
            ("loss".to_owned(), loss),
            ("accuracy".to_owned(), accuracy),
            ("recall/3".to_owned(), 0.5),
        ]
    }

    /// A run in the middle of its third epoch.
    pub(in crate::ui) fn in_the_third_epoch() -> ViewState {
        let mut state = ViewState {
            name: "digits".to_owned(),
            ..ViewState::default()
        };
        for iteration in 0..=25 {
            state.sees(&at(Phase::Train, iteration));
            if iteration > 0 && iteration % 10 == 0 {
                let (loss, accuracy) = match iteration {
                    10 => (0.5, 0.75),
                    _ => (0.25, 0.70),
                };
                state.sees_end(
                    &at(Phase::Train, iteration),
                    values(loss, accuracy),
                    &pass(),
                );
                state.sees_end(&at(Phase::Val, iteration), values(loss, accuracy), &pass());
            }
        }
        state.passes.push((Phase::Train, pass()));
        state
    }

    #[test]
    fn rows_come_together_by_iterations_and_the_best_are_known() {
        let state = in_the_third_epoch();
        let iterations: Vec<u64> = state.rows.iter().map(|row| row.iteration).collect();
        assert_eq!(iterations, [10, 20]);
        let row = &state.rows[0];
        assert!((row.epoch - 1.0).abs() < 1e-9);
        let names: Vec<_> = row
            .values
            .iter()
            .map(|(p, n, _)| (*p, n.as_str()))
            .collect();
        let (train, val) = (Phase::Train, Phase::Val);
        let all = [
            (train, "loss"),
            (train, "accuracy"),
            (val, "loss"),
            (val, "accuracy"),
        ];
        assert_eq!(names, all);
        let best = |name| state.best_of(val, name).map(|best| best.iteration);
        assert_eq!((best("loss"), best("accuracy")), (Some(20), Some(10)));
        assert_eq!(state.val_loss.points(), [(10.0, 0.5), (20.0, 0.25)]);
        assert_eq!(state.train_loss.points().len(), 26);
    }

    #[test]
    fn a_second_validation_at_the_same_moment_takes_the_firsts_place() {
        let mut state = in_the_third_epoch();
        for accuracy in [0.1, 0.2] {
            state.sees_end(&at(Phase::Val, 25), values(0.3, accuracy), &pass());
        }
        assert_eq!(state.rows.len(), 3);
        assert_eq!(state.rows[2].values.len(), 2);
        assert!((state.rows[2].epoch - 2.5).abs() < 1e-9);
    }

    #[test]
    fn a_roll_back_takes_back_what_came_later() {
        let mut state = in_the_third_epoch();
        state.sees(&at(Phase::Train, 15));
        assert_eq!(state.rows.len(), 1);
        assert_eq!(state.val_loss.points(), [(10.0, 0.5)]);
        assert_eq!(state.train_loss.points().len(), 16);
    }

    #[test]
    fn times_count_the_pass_under_way() {
        let state = in_the_third_epoch();
        let of = |phase| {
            state
                .times_of(phase)
                .map(|times| (times.passes, times.total))
        };
        assert_eq!(of(Phase::Train), Some((3, 6.0)));
        assert_eq!(of(Phase::Val), Some((2, 4.0)));
        assert_eq!(of(Phase::Test), None);
    }

    #[test]
    fn the_pace_is_that_of_the_last_seconds() {
        let state = in_the_third_epoch();
        let (iterations, samples) = state.pace().expect("a pace");
        assert!((iterations - 4.0).abs() < 1e-9 && (samples - 256.0).abs() < 1e-9);
        assert!((state.done() - 25.0 / 40.0).abs() < 1e-9);
        assert_eq!(ViewState::default().pace(), None);
        assert!(ViewState::default().done().abs() < f64::EPSILON);
    }

    #[test]
    fn times_are_asked_for_by_a_copy_alone() {
        let shared = SharedViewState::new("digits");
        assert!(!shared.sees(&at(Phase::Train, 0)));
        assert_eq!(shared.copy().name, "digits");
        assert!(shared.sees(&at(Phase::Train, 1)));
        assert!(!shared.sees(&at(Phase::Train, 2)));
        shared.sees_times(Phase::Train, &pass());
        shared.set_status("half");
        let copy = shared.copy();
        assert_eq!(copy.passes.len(), 1);
        assert_eq!(copy.status, "half");
    }
}
