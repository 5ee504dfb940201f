//! Contents of the trace file.

use std::collections::BTreeMap;

use sconce_plugin_api::prelude::*;
use serde_json::Value;

/// The trace of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Trace {
    /// The run's name and seed.
    pub(crate) run: String,
    pub(crate) seed: u64,
    pub(crate) status: Status,
    /// Why the run ended, if there is more to say.
    pub(crate) reason: Option<String>,
    /// The exit status of the process.
    pub(crate) exit_status: Option<u8>,
    /// When the first process of the run began, and when the last one ended.
    pub(crate) begin: String,
    pub(crate) end: Option<String>,
    /// When this was written.
    pub(crate) updated: String,
    /// Seconds of the run, without the gaps between its processes.
    pub(crate) seconds: f64,
    pub(crate) epochs: Epochs,
    #[serde(flatten)]
    pub(crate) counters: Counters,
    /// The last metrics of each phase; `null` for values that are not finite.
    pub(crate) metrics: BTreeMap<String, BTreeMap<String, Option<f64>>>,
    /// The best value of each metric with a known direction.
    pub(crate) best: BTreeMap<String, Best>,
    pub(crate) checkpoints: Checkpoints,
    /// The checkpoint that this process resumed from.
    pub(crate) resumed_from: Option<ResumedFrom>,
    /// Number of rollbacks that the run made itself.
    pub(crate) roll_backs: u64,
    /// The run's hooks, in the manifest's order.
    pub(crate) hooks: Vec<Value>,
    pub(crate) versions: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) this_process: ThisProcess,
    /// The earlier processes of the run.
    pub(crate) earlier: Vec<Earlier>,
}

/// Counters of a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counters {
    pub(crate) iterations: u64,
    pub(crate) updates: u64,
    pub(crate) samples: u64,
}

/// The process that runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ThisProcess {
    /// Its ID, and when it began.
    pub(crate) process: u32,
    pub(crate) process_begin: String,
}

/// Status of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// Running; if the process no longer exists, it was killed or crashed.
    #[default]
    Running,
    /// All epochs were trained.
    Completed,
    /// A hook requested the stop.
    Stopped,
    /// A signal ended it.
    Interrupted,
    /// An error ended it.
    Failed,
    /// An earlier process ended without recording a status.
    Killed,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Epochs {
    pub(crate) done: u64,
    pub(crate) asked: u64,
}

/// The best value of a metric.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Best {
    pub(crate) value: f64,
    /// Number of training epochs finished by then.
    #[serde(deserialize_with = "state::count")]
    pub(crate) epoch: u64,
    pub(crate) rule: Rule,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Checkpoints {
    pub(crate) saved: u64,
    pub(crate) last: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ResumedFrom {
    pub(crate) checkpoint: String,
    pub(crate) epoch: u64,
    pub(crate) iteration: u64,
}

/// An earlier process of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Earlier {
    pub(crate) begin: String,
    pub(crate) end: Option<String>,
    /// When it last wrote the trace.
    pub(crate) updated: String,
    pub(crate) status: Status,
    pub(crate) reason: Option<String>,
    pub(crate) iterations: u64,
}

impl Trace {
    /// The processes before one that resumes from this trace.
    pub(crate) fn into_earlier(self) -> Vec<Earlier> {
        let mut earlier = self.earlier;
        earlier.push(Earlier {
            begin: self.this_process.process_begin,
            end: self.end,
            updated: self.updated,
            status: match self.status {
                Status::Running => Status::Killed,
                other => other,
            },
            reason: self.reason,
            iterations: self.counters.iterations,
        });
        earlier
    }

    /// Reads the run's progress from the view.
    pub(crate) fn take_place(&mut self, task: &TaskView<'_>) {
        self.seconds = task.elapsed().as_secs_f64();
        self.epochs = Epochs {
            done: task.epoch(),
            asked: task.epochs(),
        };
        self.counters.iterations = task.iteration();
        self.counters.updates = task.update();
        self.counters.samples = task.samples();
        for phase in Phase::ALL {
            let metrics: BTreeMap<_, _> = (task.metrics_of(phase))
                .filter(|(name, _)| !name.contains('/'))
                .map(|(name, value)| (name.to_owned(), value.is_finite().then_some(value)))
                .collect();
            if !metrics.is_empty() {
                self.metrics.insert(phase.name().to_owned(), metrics);
            }
        }
    }

    /// Compares the validation's metrics, or where there is none the training's, with the best.
    pub(crate) fn take_best(&mut self, task: &TaskView<'_>, chosen: Option<&[Monitor]>) {
        let mut found = Vec::new();
        if let Some(chosen) = chosen {
            let values = chosen.iter().filter_map(|monitor| {
                let phase = monitor.phase().unwrap_or(Phase::Val);
                Some((phase, monitor.name(), monitor.value(task, Phase::Val)?))
            });
            found.extend(values);
        } else {
            let has_val = task.metrics_of(Phase::Val).next().is_some();
            let phase = if has_val { Phase::Val } else { Phase::Train };
            found.extend(
                task.metrics_of(phase)
                    .map(|(name, value)| (phase, name, value)),
            );
        }
        for (phase, name, value) in found {
            let Some(rule) = Rule::of_metric(name).filter(|_| value.is_finite()) else {
                continue;
            };
            let key = format!("{phase}/{name}");
            let best = self.best.get(&key);
            if best.is_none_or(|best| rule.is_better(value, best.value)) {
                let epoch = task.epoch();
                self.best.insert(key, Best { value, epoch, rule });
            }
        }
    }
}
