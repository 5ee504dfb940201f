//! Data collected for the page: the hook's state.

use std::collections::{HashMap, HashSet};

use sconce_plugin_api::{EpochProfile, Phase, Result, Rule, bail, state};
use serde::{Deserialize, Serialize};

use crate::confusion::Matrix;

/// Maximum number of points of a per-iteration curve.
const MOST_POINTS: usize = 2000;

/// Data collected over the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct History {
    /// The epoch of training in progress, or the last one.
    #[serde(default)]
    pub(crate) pass: EpochPass,
    /// Metrics at the ends of passes, in the order of their first appearance.
    pub(crate) metrics: Vec<Curve>,
    /// Index into `metrics`, by `phase/name`.
    #[serde(skip)]
    places: HashMap<String, usize>,
    /// Learning rates of the parameter groups.
    pub(crate) rates: Vec<Curve>,
    /// Losses of individual batches.
    pub(crate) losses: Vec<Curve>,
    /// One in this many of the points that `iterations` selects is kept.
    pub(crate) stride: u64,
    pub(crate) times: Vec<Times>,
    pub(crate) events: Vec<Event>,
    /// The last finished confusion matrices, by phase.
    pub(crate) matrices: Vec<(String, Matrix)>,
}

/// Where an epoch of training began, and how long it is: the number of iterations may differ from epoch to epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EpochPass {
    /// Epochs finished before it.
    pub(crate) epoch: u64,
    /// Iterations finished before it.
    pub(crate) iteration: u64,
    /// Its iterations.
    pub(crate) iterations: u64,
}

impl EpochPass {
    /// Progress of training in epochs, including fractions, after this many iterations; `None` before the first epoch.
    pub(crate) fn place(self, iteration: u64) -> Option<f64> {
        let done = iteration.saturating_sub(self.iteration);
        (self.iterations > 0).then(|| self.epoch as f64 + done as f64 / self.iterations as f64)
    }

    fn check(self) -> Result<()> {
        state::check_count("epoch", self.epoch)?;
        state::check_count("iteration", self.iteration)?;
        state::check_count("iterations", self.iterations)
    }
}

/// Curve of a phase's metric, or of a parameter group's learning rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) phase: String,
    /// Epochs, including fractions, and values; `None` if a value is NaN or infinite.
    pub(crate) points: Vec<(f64, Option<f64>)>,
}

/// An event of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) epoch: u64,
    pub(crate) iteration: u64,
    /// Seconds that the run had taken.
    pub(crate) seconds: f64,
    /// `checkpoint`, `back`, `error` or `end`.
    pub(crate) kind: String,
    pub(crate) text: String,
}

/// How the time of a phase's passes was spent, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    pub(crate) phase: String,
    pub(crate) passes: u64,
    pub(crate) total: f64,
    /// Times of data, forward, loss, backward and update.
    pub(crate) parts: [f64; 5],
    pub(crate) hooks: Vec<HookTimes>,
}

/// Time spent in a hook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HookTimes {
    pub(crate) name: String,
    pub(crate) calls: u64,
    pub(crate) seconds: f64,
    pub(crate) longest: f64,
    /// Spent by the host on its requests.
    #[serde(default)]
    pub(crate) requests: f64,
}

/// Summary of a curve, shown in a table.
pub(crate) struct Summary {
    pub(crate) last: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
    /// The best value and its epoch, if the metric's name implies which value is better.
    pub(crate) best: Option<(f64, f64, Rule)>,
}

impl History {
    /// Rejects a state that no run can have saved: counters out of bounds, matrices that are not
    /// square.
    pub(crate) fn check(&self) -> Result<()> {
        self.pass.check()?;
        state::check_count("stride", self.stride)?;
        for event in &self.events {
            state::check_count("epoch", event.epoch)?;
            state::check_count("iteration", event.iteration)?;
            check_seconds(event.seconds)?;
        }
        for times in &self.times {
            state::check_count("passes", times.passes)?;
            check_seconds(times.total)?;
            times
                .parts
                .iter()
                .try_for_each(|part| check_seconds(*part))?;
            for hook in &times.hooks {
                state::check_count("calls", hook.calls)?;
                check_seconds(hook.seconds)?;
                check_seconds(hook.longest)?;
                check_seconds(hook.requests)?;
            }
        }
        self.matrices
            .iter()
            .try_for_each(|(_, matrix)| matrix.check())
    }

    /// Adds a metric of a finished pass.
    pub(crate) fn add_metric(&mut self, phase: Phase, name: &str, at: f64, value: f64) {
        // A restored history comes without the index.
        if self.places.len() != self.metrics.len() {
            self.places = positions_of(&self.metrics);
        }
        let key = format!("{phase}/{name}");
        let known = self.places.get(&key).copied();
        push_at(&mut self.metrics, known, name, phase.name(), (at, value));
        if known.is_none() {
            self.places.insert(key, self.metrics.len() - 1);
        }
    }

    pub(crate) fn add_rate(&mut self, group: &str, at: f64, rate: f64) {
        push(&mut self.rates, group, "train", at, rate);
    }

    /// Whether the curves of the learning rates have come to this place.
    pub(crate) fn has_rates_at(&self, at: f64) -> bool {
        let mut last = self.rates.iter().filter_map(|curve| curve.points.last());
        last.any(|(last, _)| *last >= at)
    }

    /// Adds a point to the loss curve.
    pub(crate) fn add_loss(&mut self, at: f64, loss: f64) {
        push(&mut self.losses, "loss", "train", at, loss);
    }

    /// Whether the point with this number, counted from 0, is kept.
    pub(crate) fn keeps(&self, number: u64) -> bool {
        number.is_multiple_of(self.stride.max(1))
    }

    /// Drops every second point of the per-iteration curves if there are too many.
    pub(crate) fn thin(&mut self) {
        let many = |curve: &Curve| curve.points.len() > MOST_POINTS;
        if !self.losses.iter().chain(&self.rates).any(many) {
            return;
        }
        self.stride = self.stride.max(1).saturating_mul(2);
        for curve in self.losses.iter_mut().chain(&mut self.rates) {
            let mut index = 0;
            curve.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    /// Drops the events of checkpoints that have been deleted or replaced since.
    pub(crate) fn keep_checkpoints(&mut self, is_there: impl Fn(&str) -> bool) {
        let mut seen = HashSet::new();
        let mut kept: Vec<Event> = std::mem::take(&mut self.events);
        kept.reverse();
        kept.retain(|event| {
            let tag = (event.kind == "checkpoint").then(|| event.text.split('`').nth(1));
            match tag.flatten() {
                Some(tag) => seen.insert(tag.to_owned()) && is_there(tag),
                None => true,
            }
        });
        kept.reverse();
        self.events = kept;
    }

    pub(crate) fn add_times(&mut self, phase: Phase, profile: EpochProfile<'_>) {
        let index = self.times.iter().position(|one| one.phase == phase.name());
        let index = index.unwrap_or_else(|| {
            self.times.push(Times {
                phase: phase.name().to_owned(),
                ..Times::default()
            });
            self.times.len() - 1
        });
        let Some(times) = self.times.get_mut(index) else {
            return;
        };
        times.passes += 1;
        times.total += profile.total().as_secs_f64();
        let parts = [
            profile.data(),
            profile.forward(),
            profile.loss(),
            profile.backward(),
            profile.update(),
        ];
        for (sum, part) in times.parts.iter_mut().zip(parts) {
            *sum += part.as_secs_f64();
        }
        for (index, hook) in profile.hooks().enumerate() {
            let found = place(&times.hooks, index, hook.name);
            let found = found.and_then(|index| times.hooks.get_mut(index));
            let new = HookTimes {
                name: hook.name.to_owned(),
                calls: hook.calls,
                seconds: hook.time.as_secs_f64(),
                longest: hook.longest.as_secs_f64(),
                requests: hook.requests.as_secs_f64(),
            };
            match found {
                Some(known) => {
                    known.calls += new.calls;
                    known.seconds += new.seconds;
                    known.longest = known.longest.max(new.longest);
                    known.requests += new.requests;
                }
                None => times.hooks.push(new),
            }
        }
    }

    pub(crate) fn set_matrix(&mut self, phase: Phase, matrix: Matrix) {
        let known = self
            .matrices
            .iter_mut()
            .find(|(name, _)| name == phase.name());
        match known {
            Some((_, old)) => *old = matrix,
            None => self.matrices.push((phase.name().to_owned(), matrix)),
        }
    }
}

impl Curve {
    /// Whether the metric is an entry of a table, such as `activation/conv1/mean`.
    pub(crate) fn is_of_table(&self) -> bool {
        self.name.contains('/')
    }

    /// The last value and the extremes, if there are finite values.
    pub(crate) fn summary(&self) -> Option<Summary> {
        let values = || {
            let points = self.points.iter();
            points.filter_map(|(at, value)| Some((*at, (*value)?)))
        };
        let (_, last) = values().next_back()?;
        let best = Rule::of_metric(&self.name).and_then(|rule| {
            let better = |best: (f64, f64), one: (f64, f64)| {
                if rule.is_better(one.1, best.1) {
                    one
                } else {
                    best
                }
            };
            let (at, value) = values().reduce(better)?;
            Some((value, at, rule))
        });
        let numbers = || values().map(|(_, value)| value);
        Some(Summary {
            last,
            least: numbers().fold(last, f64::min),
            greatest: numbers().fold(last, f64::max),
            best,
        })
    }
}

fn check_seconds(seconds: f64) -> Result<()> {
    if !(0.0..1e15).contains(&seconds) {
        bail!("the state has a time of {seconds} seconds");
    }
    Ok(())
}

/// Index of the hook with this name; almost always the likely one, where it was last time.
fn place(hooks: &[HookTimes], likely: usize, name: &str) -> Option<usize> {
    let is_it = |hook: &HookTimes| hook.name == name;
    if hooks.get(likely).is_some_and(is_it) {
        return Some(likely);
    }
    hooks.iter().position(is_it)
}

/// Index of the metrics' curves by phase and name: there may be thousands.
fn positions_of(curves: &[Curve]) -> HashMap<String, usize> {
    let curves = curves.iter().enumerate();
    curves
        .map(|(index, curve)| (format!("{}/{}", curve.phase, curve.name), index))
        .collect()
}

fn push(curves: &mut Vec<Curve>, name: &str, phase: &str, at: f64, value: f64) {
    let mut known = curves.iter();
    let known = known.position(|curve| curve.name == name && curve.phase == phase);
    push_at(curves, known, name, phase, (at, value));
}

fn push_at(
    curves: &mut Vec<Curve>,
    known: Option<usize>,
    name: &str,
    phase: &str,
    (at, value): (f64, f64),
) {
    let point = (at, value.is_finite().then_some(value));
    if let Some(curve) = known.and_then(|index| curves.get_mut(index)) {
        curve.points.push(point);
        return;
    }
    curves.push(Curve {
        name: name.to_owned(),
        phase: phase.to_owned(),
        points: vec![point],
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_may_have_different_numbers_of_iterations() {
        assert_eq!(EpochPass::default().place(3), None);
        let second = EpochPass {
            epoch: 1,
            iteration: 8,
            iterations: 4,
        };
        let places = [8, 10, 12].map(|iteration| second.place(iteration));
        assert_eq!(places, [Some(1.0), Some(1.5), Some(2.0)]);
    }

    #[test]
    fn checkpoints_that_are_gone_or_replaced_are_not_listed() {
        let mut history = History::default();
        for (epoch, kind, text) in [
            (1, "checkpoint", "`latest`, 1 kB"),
            (1, "checkpoint", "`epoch-1`, 1 kB"),
            (2, "back", "back to `epoch-1`"),
            (3, "checkpoint", "`latest`, 1 kB, by `saver`"),
            (3, "end", "completed"),
        ] {
            history.events.push(Event {
                epoch,
                iteration: 0,
                seconds: 0.0,
                kind: kind.to_owned(),
                text: text.to_owned(),
            });
        }
        history.keep_checkpoints(|tag| tag == "latest");
        let left: Vec<(u64, &str)> = (history.events.iter())
            .map(|event| (event.epoch, event.kind.as_str()))
            .collect();
        assert_eq!(left, [(2, "back"), (3, "checkpoint"), (3, "end")]);
    }

    #[test]
    fn many_points_are_thinned_and_the_first_and_the_rhythm_stay() {
        let mut history = History::default();
        for number in 0..10_000_u64 {
            if history.keeps(number) {
                history.add_loss(number as f64, 1.0);
                history.thin();
            }
        }
        let points = &history.losses[0].points;
        assert!(points.len() <= MOST_POINTS + 1 && points.len() > MOST_POINTS / 2);
        let steps: Vec<f64> = points.windows(2).map(|two| two[1].0 - two[0].0).collect();
        assert!(
            steps.iter().all(|step| (step - steps[0]).abs() < 0.5),
            "{steps:?}"
        );
        assert!(points[0].0.abs() < 0.5);
    }

    #[test]
    fn the_best_follows_from_the_metrics_name_and_what_is_no_number_is_none() {
        let mut history = History::default();
        for (at, loss, accuracy) in [(1.0, 0.5, 0.7), (2.0, 0.25, 0.9), (3.0, f64::NAN, 0.8)] {
            history.add_metric(Phase::Val, "loss", at, loss);
            history.add_metric(Phase::Val, "accuracy", at, accuracy);
        }
        history.add_metric(Phase::Val, "width", 1.0, 3.0);
        let summary = |index: usize| history.metrics[index].summary().expect("a value");
        let best = |index: usize| (summary(index).best, summary(index).last);
        assert_eq!(best(0), (Some((0.25, 2.0, Rule::Less)), 0.25));
        assert_eq!(best(1), (Some((0.9, 2.0, Rule::Greater)), 0.8));
        assert_eq!((summary(1).least, summary(1).greatest), (0.7, 0.9));
        assert!(summary(2).best.is_none());
        let text = serde_json::to_string(&history).expect("JSON");
        let back: History = serde_json::from_str(&text).expect("it comes back");
        assert_eq!(back.metrics, history.metrics);
    }
}
