//! The weights that a run keeps, and how good they are.
//!
//! Metrics are compared with weights, not with epochs: each pass notes which weights it measured ([`WeightsId`]), and the
//! kept weights have the metrics of the passes that measured these. Weights loaded from a checkpoint
//! (`load_best`, `restore_best`) have those that the checkpoint has of them; what is measured afterwards, such as the
//! test, counts as theirs too. All other results are those of weights that are gone: they are given beside, with the epoch.

use sconce_plugin_api::{KEPT_WEIGHTS, Keep, Phase};
use serde_json::{Map, Value, json};

use crate::bridge::{BridgeState, ValueContent};
use crate::checkpoint::{PhaseState, WeightsId};

/// Metrics by name.
type Metrics = Vec<(String, f64)>;

/// The weights that a run ends with, as in `weights.safetensors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWeights {
    /// Checkpoint that they were loaded from; `None`: they are those that training ended with.
    pub checkpoint: Option<String>,
    /// How far they were trained.
    pub weights: WeightsId,
}

/// Metrics of weights other than those kept: the last ones measured in a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct LastMetrics {
    /// The phase.
    pub phase: Phase,
    /// The weights that were measured; `None` if the pass did not end.
    pub weights: Option<WeightsId>,
    /// The metrics.
    pub metrics: Metrics,
}

/// Metrics at a run's end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinalMetrics {
    /// The weights that are kept; `None` if the run was interrupted or has failed.
    pub kept: Option<KeptWeights>,
    /// Metrics of each phase measured with these weights; without any kept, those measured last.
    pub metrics: Vec<(Phase, Metrics)>,
    /// What was measured last in each phase, where that was with other weights.
    pub last: Vec<LastMetrics>,
}

impl KeptWeights {
    /// As JSON: `checkpoint`, `epoch`, `iteration`, `update` and `set`.
    pub fn to_json(&self) -> Value {
        let mut object = json!(self.weights);
        object["checkpoint"] = json!(self.checkpoint);
        object
    }
}

impl FinalMetrics {
    /// The keys `kept`, `metrics` and `last` of `run.json` and of a model's `metrics.json`. Values that are not finite
    /// are null.
    pub fn to_json(&self) -> Map<String, Value> {
        let by_name = |metrics: &Metrics| {
            let metrics = metrics.iter();
            Value::Object(
                metrics
                    .map(|(name, value)| (name.clone(), json!(value)))
                    .collect(),
            )
        };
        let metrics = self.metrics.iter();
        let metrics: Map<String, Value> = metrics
            .map(|(phase, metrics)| (phase.name().to_owned(), by_name(metrics)))
            .collect();
        let last = self.last.iter().map(|last| {
            let mut object = json!(last.weights.clone().unwrap_or_default());
            object["metrics"] = by_name(&last.metrics);
            (last.phase.name().to_owned(), object)
        });
        let mut object = Map::new();
        object.insert(
            "kept".to_owned(),
            json!(self.kept.as_ref().map(KeptWeights::to_json)),
        );
        object.insert("metrics".to_owned(), Value::Object(metrics));
        object.insert("last".to_owned(), Value::Object(last.collect()));
        object
    }

    /// What `phases`, the last results of each, and those of a loaded checkpoint say of the weights that are kept.
    fn of(
        kept: KeptWeights,
        phases: &[PhaseState],
        saved: &[PhaseState],
    ) -> (FinalMetrics, Vec<PhaseState>) {
        let mut all = FinalMetrics::default();
        let mut own = Vec::new();
        for last in phases {
            let is_own = is_of(last, &kept.weights);
            let saved = saved
                .iter()
                .find(|saved| saved.phase == last.phase && is_of(saved, &kept.weights));
            let found = if is_own { Some(last) } else { saved };
            own.extend(found.cloned());
            all.metrics.extend(found.and_then(named));
            if let (false, Some((phase, metrics))) = (is_own, named(last)) {
                all.last.push(LastMetrics {
                    phase,
                    weights: last.weights.clone(),
                    metrics,
                });
            }
        }
        all.kept = Some(kept);
        (all, own)
    }
}

/// Whether a phase's metrics are those of these weights. Training never measures averages, which are made from its own.
fn is_of(state: &PhaseState, weights: &WeightsId) -> bool {
    let is_training = state.phase == Phase::Train.number();
    state.weights.as_ref().is_some_and(|measured| {
        measured.update == weights.update && (is_training || measured.set == weights.set)
    })
}

/// A phase's metrics, if it has any.
fn named(state: &PhaseState) -> Option<(Phase, Metrics)> {
    let values = state.values.iter();
    let metrics: Metrics = values
        .map(|(name, value, _)| (name.clone(), value.0))
        .collect();
    let phase = Phase::from_number(state.phase)?;
    (!metrics.is_empty()).then_some((phase, metrics))
}

/// Settles the metrics of a run that keeps these weights, of which a checkpoint says `saved`: from now on hooks see those
/// of these weights, and which they are.
pub(in crate::run) fn settle(
    kept: KeptWeights,
    saved: &[PhaseState],
    shared: &BridgeState<'_>,
) -> FinalMetrics {
    let phases = shared.read_metrics().save();
    let (metrics, own) = FinalMetrics::of(kept, &phases, saved);
    let mut board = shared.metrics.borrow_mut();
    for phase in Phase::ALL {
        board.begin(phase);
    }
    board.restore(&own);
    drop(board);
    let mut value = metrics.to_json();
    value.remove("metrics");
    let value = ValueContent::Json(Value::Object(value).to_string().into());
    shared.values.set(KEPT_WEIGHTS, Keep::Run, None, value);
    metrics
}

/// The metrics that hooks see now.
pub(in crate::run) fn shown_metrics(shared: &BridgeState<'_>) -> Vec<(Phase, Metrics)> {
    let phases = shared.read_metrics().save();
    phases.iter().filter_map(named).collect()
}
