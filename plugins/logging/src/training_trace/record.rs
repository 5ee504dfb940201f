//! What stands in the file.

use std::collections::BTreeMap;

use sconce_plugin_api::Rule;
use sconce_plugin_api::prelude::*;
use serde_json::Value;

/// A run as its trace tells it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Trace {
    /// The run's name and seed.
    pub(crate) run: String,
    pub(crate) seed: u64,
    pub(crate) status: Status,
    /// Why it ended, where there is more to say.
    pub(crate) reason: Option<String>,
    /// The exit status of the process.
    pub(crate) exit_status: Option<u8>,
    /// When the first process of the run began, and the last one ended.
    pub(crate) begin: String,
    pub(crate) end: Option<String>,
    /// When this was written.
    pub(crate) updated: String,
    /// Seconds of the run, without those between its processes.
    pub(crate) seconds: f64,
    pub(crate) epochs: Epochs,
    pub(crate) iterations: u64,
    pub(crate) updates: u64,
    pub(crate) samples: u64,
    /// The last metrics of each phase; `null` where one is no number.
    pub(crate) metrics: BTreeMap<String, BTreeMap<String, Option<f64>>>,
    /// The best value of each metric that has a better and a worse.
    pub(crate) best: BTreeMap<String, Best>,
    pub(crate) checkpoints: Checkpoints,
    /// The checkpoint that this process went on from.
    pub(crate) resumed_from: Option<ResumedFrom>,
    /// How often the run went back to a checkpoint by itself.
    pub(crate) roll_backs: u64,
    /// The run's hooks, by the manifest's order.
    pub(crate) hooks: Vec<Value>,
    pub(crate) versions: BTreeMap<String, String>,
    /// This process's number, and when it began.
    pub(crate) process: u32,
    pub(crate) process_begin: String,
    /// The processes of the run before this one.
    pub(crate) earlier: Vec<Earlier>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// Under way; where nobody is at work any more, the process was killed or crashed.
    #[default]
    Running,
    /// All epochs were trained.
    Completed,
    /// A hook asked for the end.
    Stopped,
    /// A signal ended it.
    Interrupted,
    /// An error ended it.
    Failed,
    /// Of an earlier process: it ended without a word.
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
    /// The training epochs that were finished then.
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

/// A process of the run before this one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Earlier {
    pub(crate) begin: String,
    pub(crate) end: Option<String>,
    /// When it was last heard of.
    pub(crate) updated: String,
    pub(crate) status: Status,
    pub(crate) reason: Option<String>,
    pub(crate) iterations: u64,
}

impl Trace {
    /// The processes before one that goes on from this trace.
    pub(crate) fn into_earlier(self) -> Vec<Earlier> {
        let mut earlier = self.earlier;
        earlier.push(Earlier {
            begin: self.process_begin,
            end: self.end,
            updated: self.updated,
            status: match self.status {
                Status::Running => Status::Killed,
                other => other,
            },
            reason: self.reason,
            iterations: self.iterations,
        });
        earlier
    }

    /// Takes the run's place from the view.
    pub(crate) fn take_place(&mut self, task: &TaskView<'_>) {
        self.seconds = task.elapsed().as_secs_f64();
        self.epochs = Epochs {
            done: task.epoch(),
            asked: task.epochs(),
        };
        self.iterations = task.iteration();
        self.updates = task.update();
        self.samples = task.samples();
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
