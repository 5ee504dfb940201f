//! Metrics of every phase: means over the samples of a pass, and values published by hooks.

use std::collections::HashMap;

use sconce_plugin_api::Phase;
use sconce_plugin_api::ext::check_name;
use serde::{Deserialize, Serialize};

use sconce_base::exact::Exact;

/// Up to this many values, a linear search is faster than hashing the name; hooks may publish
/// thousands.
const FEW: usize = 16;

/// Metrics of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseState {
    /// Number of the phase.
    pub phase: u32,
    /// Samples of the pass so far.
    pub samples: Exact,
    /// Sums from which the task's metrics are computed.
    pub sums: Vec<Exact>,
    /// Name, value, and whether it belongs to the task.
    pub values: Vec<(String, Exact, bool)>,
    /// The weights that they were measured with; `None` while the pass is in progress, and in checkpoints of earlier
    /// formats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsId>,
}

/// Identity of a run's weights: how far they are trained, and whether they are averages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightsId {
    /// Training epochs finished.
    pub epoch: u64,
    /// Training iterations finished.
    pub iteration: u64,
    /// Updates finished.
    pub update: u64,
    /// Published set of averages; `None`: the trained parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
}

/// Metrics of all phases.
#[derive(Debug, Default)]
pub struct MetricBoard {
    phases: [PhaseMetrics; Phase::ALL.len()],
}

/// Metrics of one phase: of the current pass, or of the last one.
#[derive(Debug, Default)]
pub struct PhaseMetrics {
    /// All names that this phase has ever had. Plugins may keep pointers to them until the end of
    /// the run, so none is ever removed.
    names: Vec<Box<str>>,
    /// Index in `names` of each name.
    known: HashMap<Box<str>, usize>,
    /// Position in `values` of each name, by its index in `names`.
    slots: Vec<Option<usize>>,
    /// Values of this pass, in order of first appearance.
    values: Vec<MetricEntry>,
    /// Sums from which the loss and the task's metrics are computed.
    sums: Vec<f64>,
    samples: f64,
    /// The weights that were measured, once the pass is done.
    weights: Option<WeightsId>,
}

#[derive(Clone, Copy, Debug)]
struct MetricEntry {
    name: usize,
    value: f64,
    /// Whether the task computed it, rather than a hook publishing it.
    from_task: bool,
}

impl MetricBoard {
    /// Returns the metrics of a phase.
    pub fn of(&self, phase: Phase) -> &PhaseMetrics {
        // In range: the array has one element per phase, and phase numbers count from 0.
        let index = phase.number() as usize % Phase::ALL.len();
        &self.phases[index]
    }

    fn of_mut(&mut self, phase: Phase) -> &mut PhaseMetrics {
        let index = phase.number() as usize % Phase::ALL.len();
        &mut self.phases[index]
    }

    /// Begins a pass, discarding the values of the previous one.
    pub fn begin(&mut self, phase: Phase) {
        let metrics = self.of_mut(phase);
        for entry in metrics.values.drain(..) {
            if let Some(place) = metrics.slots.get_mut(entry.name) {
                *place = None;
            }
        }
        metrics.sums.clear();
        metrics.samples = 0.0;
        metrics.weights = None;
    }

    /// Ends a pass that measured these weights.
    pub fn end(&mut self, phase: Phase, weights: WeightsId) {
        self.of_mut(phase).weights = Some(weights);
    }

    /// Returns the sums of this pass, `count` of them, and its number of samples.
    pub fn sums(&mut self, phase: Phase, count: usize) -> (&mut [f64], &mut f64) {
        let metrics = self.of_mut(phase);
        metrics.sums.resize(count, 0.0);
        (&mut metrics.sums, &mut metrics.samples)
    }

    /// Sets one of the task's metrics.
    pub fn set(&mut self, phase: Phase, name: &str, value: f64) {
        self.of_mut(phase).set(name, value, true);
    }

    /// Returns the metrics of all phases, for a checkpoint.
    pub fn save(&self) -> Vec<PhaseState> {
        let state = |phase: Phase| {
            let metrics = self.of(phase);
            let named = |entry: &MetricEntry| {
                let name = metrics.names.get(entry.name)?.to_string();
                Some((name, Exact(entry.value), entry.from_task))
            };
            PhaseState {
                phase: phase.number(),
                samples: Exact(metrics.samples),
                sums: metrics.sums.iter().copied().map(Exact).collect(),
                values: metrics.values.iter().filter_map(named).collect(),
                weights: metrics.weights.clone(),
            }
        };
        Phase::ALL.into_iter().map(state).collect()
    }

    /// Restores the state returned by [`save`](MetricBoard::save).
    pub fn restore(&mut self, states: &[PhaseState]) {
        for state in states {
            let Some(phase) = Phase::from_number(state.phase) else {
                continue;
            };
            self.begin(phase);
            let metrics = self.of_mut(phase);
            metrics.samples = state.samples.0;
            metrics.sums = state.sums.iter().map(|sum| sum.0).collect();
            for (name, value, from_task) in &state.values {
                metrics.set(name, value.0, *from_task);
            }
            metrics.weights.clone_from(&state.weights);
        }
    }

    /// Publishes a hook's metric for a phase; returns its earlier value in this pass.
    ///
    /// # Errors
    ///
    /// A message for the hook's author if the name is invalid or belongs to a metric of the task.
    pub fn publish(&mut self, phase: Phase, name: &str, value: f64) -> Result<Option<f64>, String> {
        check_name("a metric's name", name)?;
        let metrics = self.of_mut(phase);
        let place = metrics.slot(name);
        let Some(known) = place.and_then(|place| metrics.values.get_mut(place)) else {
            metrics.set(name, value, false);
            return Ok(None);
        };
        if known.from_task {
            return Err(format!("the metric `{name}` is the task's"));
        }
        Ok(Some(std::mem::replace(&mut known.value, value)))
    }

    /// Takes back the last publication of a metric, which had an earlier value or none.
    pub(crate) fn take_back(&mut self, phase: Phase, name: &str, earlier: Option<f64>) {
        self.of_mut(phase).take_back(name, earlier);
    }
}

impl PhaseMetrics {
    /// Sets a metric to its earlier value, or removes it if it had none. Metrics of the task may have come after it: those of
    /// batches that were still on a device when the hook was called.
    fn take_back(&mut self, name: &str, earlier: Option<f64>) {
        let Some(place) = self.slot(name) else {
            return;
        };
        if let Some(earlier) = earlier {
            if let Some(known) = self.values.get_mut(place) {
                known.value = earlier;
            }
            return;
        }
        let removed = self.values.remove(place);
        if let Some(slot) = self.slots.get_mut(removed.name) {
            *slot = None;
        }
        for (place, later) in self.values.iter().enumerate().skip(place) {
            if let Some(slot) = self.slots.get_mut(later.name) {
                *slot = Some(place);
            }
        }
    }

    /// Number of metrics in this pass.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether the pass has no metrics.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The metric at `index`, in the order of first appearance.
    pub fn at(&self, index: usize) -> Option<(&str, f64)> {
        let found = self.values.get(index)?;
        Some((self.names.get(found.name)?, found.value))
    }

    /// Value of the metric with this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.find(name).map(|found| found.value)
    }

    /// Names and values, in the order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        (0..self.len()).filter_map(|index| self.at(index))
    }

    fn find(&self, name: &str) -> Option<&MetricEntry> {
        self.values.get(self.slot(name)?)
    }

    /// Position in `values` of the metric with this name.
    fn slot(&self, name: &str) -> Option<usize> {
        if self.values.len() > FEW {
            let index = *self.known.get(name)?;
            return *self.slots.get(index)?;
        }
        let is_it = |value: &MetricEntry| self.names.get(value.name).is_some_and(|n| **n == *name);
        self.values.iter().position(is_it)
    }

    fn set(&mut self, name: &str, value: f64, from_task: bool) {
        let place = self.slot(name);
        if let Some(known) = place.and_then(|place| self.values.get_mut(place)) {
            known.value = value;
            return;
        }
        let name = self.intern(name);
        if let Some(place) = self.slots.get_mut(name) {
            *place = Some(self.values.len());
        }
        self.values.push(MetricEntry {
            name,
            value,
            from_task,
        });
    }

    fn intern(&mut self, name: &str) -> usize {
        if let Some(&index) = self.known.get(name) {
            return index;
        }
        let index = self.names.len();
        self.names.push(name.into());
        self.slots.push(None);
        self.known.insert(name.into(), index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a batch of `count` samples with this mean loss.
    fn add(board: &mut MetricBoard, phase: Phase, count: f64, loss: f64) {
        let (sums, samples) = board.sums(phase, 1);
        sums[0] += loss * count;
        *samples += count;
        let mean = sums[0] / *samples;
        board.set(phase, "loss", mean);
    }

    #[test]
    fn a_phases_metrics_are_its_own() {
        let mut board = MetricBoard::default();
        board.begin(Phase::Train);
        add(&mut board, Phase::Train, 3.0, 1.0);
        add(&mut board, Phase::Train, 1.0, 5.0);
        let metrics = board.of(Phase::Train);
        assert_eq!(metrics.get("loss"), Some(2.0));
        assert_eq!(metrics.at(0), Some(("loss", 2.0)));
        assert!(board.of(Phase::Val).is_empty());
    }

    #[test]
    fn a_saved_board_goes_on_where_it_was() {
        let mut board = MetricBoard::default();
        board.begin(Phase::Train);
        add(&mut board, Phase::Train, 3.0, 0.1);
        assert_eq!(board.publish(Phase::Train, "norm", f64::INFINITY), Ok(None));
        let mut other = MetricBoard::default();
        other.restore(&board.save());
        for board in [&mut board, &mut other] {
            add(board, Phase::Train, 2.0, 0.7);
        }
        let all = |board: &MetricBoard| -> Vec<(String, u64)> {
            let metrics = board.of(Phase::Train).iter();
            metrics
                .map(|(name, value)| (name.to_owned(), value.to_bits()))
                .collect()
        };
        assert_eq!(all(&board), all(&other));
        assert_eq!(board.save(), other.save());
    }

    #[test]
    fn so_many_metrics_that_none_may_look_at_all_others() {
        // With a linear search for each: 10^11 comparisons of names with a common prefix.
        let names: Vec<String> = (0..200_000)
            .map(|index| format!("layers/of/the/model/norm/{index:06}"))
            .collect();
        let mut board = MetricBoard::default();
        for pass in 0..3 {
            board.begin(Phase::Train);
            for (index, name) in names.iter().enumerate() {
                let value = (index + pass) as f64;
                assert_eq!(board.publish(Phase::Train, name, value), Ok(None));
            }
            let metrics = board.of(Phase::Train);
            assert_eq!(metrics.len(), names.len());
            for (index, name) in names.iter().enumerate() {
                let value = (index + pass) as f64;
                assert_eq!(metrics.get(name), Some(value));
                assert_eq!(metrics.at(index), Some((name.as_str(), value)));
            }
        }
        let mut other = MetricBoard::default();
        other.restore(&board.save());
        assert_eq!(other.save(), board.save());
        // Names of an earlier pass are not found in the next one, whether few or many.
        board.begin(Phase::Train);
        assert_eq!(board.of(Phase::Train).get(&names[7]), None);
        for name in names.iter().skip(20).take(40) {
            assert_eq!(board.publish(Phase::Train, name, 0.0), Ok(None));
        }
        assert_eq!(board.of(Phase::Train).get(&names[7]), None);
        assert_eq!(board.of(Phase::Train).get(&names[25]), Some(0.0));
    }

    #[test]
    fn published_metrics_stand_beside_the_tasks_until_the_next_pass() {
        let mut board = MetricBoard::default();
        add(&mut board, Phase::Val, 1.0, 1.0);
        assert_eq!(board.publish(Phase::Val, "grad_norm", 2.0), Ok(None));
        assert_eq!(board.publish(Phase::Val, "grad_norm", 3.0), Ok(Some(2.0)));
        assert_eq!(board.of(Phase::Val).get("grad_norm"), Some(3.0));
        assert!(board.publish(Phase::Val, "loss", 0.0).is_err());
        board.take_back(Phase::Val, "grad_norm", Some(2.0));
        assert_eq!(board.of(Phase::Val).get("grad_norm"), Some(2.0));
        // Those that have come since move up, whether they are found by search or by hash.
        let before: Vec<_> = board
            .of(Phase::Val)
            .iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let names: Vec<String> = (0..2 * FEW).map(|index| format!("late {index}")).collect();
        for others in [1, names.len()] {
            assert_eq!(board.publish(Phase::Val, "mine", 1.0), Ok(None));
            for name in names.iter().take(others) {
                board.set(Phase::Val, name, 3.0);
            }
            board.take_back(Phase::Val, "mine", None);
            let metrics = board.of(Phase::Val);
            assert_eq!(metrics.get("mine"), None);
            let expected: Vec<_> = names
                .iter()
                .take(others)
                .map(|name| (name.as_str(), 3.0))
                .collect();
            assert_eq!(
                metrics.iter().skip(before.len()).collect::<Vec<_>>(),
                expected
            );
            assert!(
                names
                    .iter()
                    .take(others)
                    .all(|name| metrics.get(name) == Some(3.0))
            );
        }
        assert!(board.publish(Phase::Val, "", 0.0).is_err());
        assert!(board.publish(Phase::Val, "a\nb", 0.0).is_err());
        board.begin(Phase::Val);
        assert_eq!(board.of(Phase::Val).len(), 0);
    }
}
