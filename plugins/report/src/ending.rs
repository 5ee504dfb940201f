//! What the host says at a run's end: which weights are kept, how good they are, and where all of the time went.

use std::collections::BTreeMap;

use sconce_plugin_api::prelude::*;
use sconce_plugin_api::{KEPT_WEIGHTS, RUN_TIMES};

/// Facts that are only known at the end of a run.
#[derive(Default)]
pub(crate) struct Ending {
    pub(crate) kept: Option<Kept>,
    pub(crate) times: Option<WholeTimes>,
}

/// The weights that the run keeps.
pub(crate) struct Kept {
    /// Epoch, checkpoint and averages.
    pub(crate) words: String,
    /// Whether they are others than those that training ended with.
    pub(crate) differs: bool,
    /// Their metrics by phase and name.
    metrics: BTreeMap<(String, String), f64>,
}

/// Published as [`KEPT_WEIGHTS`].
#[derive(Deserialize)]
struct KeptValue {
    kept: KeptWeights,
}

#[derive(Deserialize)]
struct KeptWeights {
    epoch: u64,
    checkpoint: Option<String>,
    set: Option<String>,
}

/// Where all of the process's time went, in seconds. Published as [`RUN_TIMES`].
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct WholeTimes {
    pub(crate) seconds: f64,
    start: BTreeMap<String, f64>,
    passes: BTreeMap<String, f64>,
    pub(crate) hooks: Vec<HookWork>,
    paused: f64,
    other: f64,
}

/// Time of a hook outside of passes, in seconds.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct HookWork {
    pub(crate) name: String,
    pub(crate) calls: u64,
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    pub(crate) serving: f64,
}

impl Ending {
    /// Reads it at `after_run`, where metrics are those of the weights that are kept.
    pub(crate) fn read(task: &TaskView<'_>) -> Result<Ending> {
        let kept: Option<KeptValue> = task.published(KEPT_WEIGHTS)?;
        let metrics = Phase::ALL.into_iter().flat_map(|phase| {
            let metrics = task.metrics_of(phase);
            metrics.map(move |(name, value)| ((phase.name().to_owned(), name.to_owned()), value))
        });
        let metrics = metrics.collect();
        Ok(Ending {
            kept: kept.map(|value| Kept::of(value.kept, metrics)),
            times: task.published(RUN_TIMES)?,
        })
    }
}

impl Kept {
    fn of(kept: KeptWeights, metrics: BTreeMap<(String, String), f64>) -> Kept {
        let differs = kept.set.is_some() || kept.checkpoint.is_some();
        let epoch = format!("epoch {}", kept.epoch);
        let averages = kept.set.map(|set| format!("averages `{set}`"));
        let checkpoint = (kept.checkpoint).map(|tag| format!("from the checkpoint `{tag}`"));
        let words: Vec<String> = [Some(epoch), averages, checkpoint]
            .into_iter()
            .flatten()
            .collect();
        Kept {
            words: words.join(", "),
            differs,
            metrics,
        }
    }

    /// A metric of these weights.
    pub(crate) fn metric(&self, phase: &str, name: &str) -> Option<f64> {
        self.metrics
            .get(&(phase.to_owned(), name.to_owned()))
            .copied()
    }
}

impl WholeTimes {
    /// The parts of the whole, which add up to it.
    pub(crate) fn parts(&self) -> Vec<(&str, f64)> {
        let pass = |phase: &str| self.passes.get(phase).copied().unwrap_or_default();
        let sum = |of: fn(&HookWork) -> f64| self.hooks.iter().map(of).sum::<f64>();
        vec![
            ("start", self.start.values().sum()),
            ("training", pass("train")),
            ("validation", pass("val")),
            ("test", pass("test")),
            ("hooks outside of passes", sum(|hook| hook.seconds)),
            ("requests of hooks", sum(|hook| hook.serving)),
            ("other", self.paused + self.other),
        ]
    }
}
