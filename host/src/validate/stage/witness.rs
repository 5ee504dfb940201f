//! Observers of a small run. A hook marks the progress, saves, stops and fails on demand; a recorder keeps
//! what the tested hook logs and does.

use std::cell::{Cell, RefCell};

use sconce_plugin_api::ext::{Collection, Request};
use sconce_plugin_api::{bail, prelude::*};

use super::resources::Holdings;
use crate::bridge::{HookAction, Witness};
use crate::log::{Level, Log};

/// Name of the witness among the hooks of a run.
pub(in crate::validate) const NAME: &str = "witness";

/// Prefix of the names of the tested hooks.
pub(in crate::validate) const SUBJECT: &str = "subject-";

/// The point at which a long run has settled, as worded by the marker.
const SETTLED: &str = "before_epoch (train), epoch 10,";

/// Actions of the witness besides observing, by the number of finished iterations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::validate) struct WitnessScript {
    /// Iterations after which checkpoints `at-N` are saved.
    pub(in crate::validate) saves: Vec<u64>,
    /// Iteration after which the run is stopped.
    pub(in crate::validate) stops: Option<u64>,
    /// Iteration after which the witness fails.
    pub(in crate::validate) fails: Option<u64>,
}

/// A hook that is called first at every mount point.
pub(in crate::validate) struct Marker {
    part: WitnessScript,
}

impl Marker {
    /// Reports the current point in the run to the recorder.
    fn mark(task: &TaskView<'_>) {
        let point = task.point().map_or("", Point::name);
        let (phase, epoch, iteration) = (task.phase(), task.epoch(), task.iteration());
        task.info(format_args!(
            "{point} ({phase}), epoch {epoch}, iteration {iteration}, batch {}",
            task.batch()
        ));
    }
}

#[hook(name = "witness", about = "Watches a small run.", priority = HIGHEST)]
impl Hook for Marker {
    type Config = WitnessScript;

    fn new(part: WitnessScript, _setup: &Setup<'_>) -> Result<Self> {
        Ok(Marker { part })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        Marker::mark(task);
        Ok(())
    }

    fn before_loop(&mut self, task: &mut BeforeLoop<'_>) -> Result<()> {
        Marker::mark(task);
        Ok(())
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        Marker::mark(task);
        Ok(())
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        Marker::mark(task);
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        Marker::mark(task);
        if task.phase() != Phase::Train {
            return Ok(());
        }
        let now = task.iteration();
        if self.part.saves.contains(&now) {
            task.checkpoint(&format!("at-{now}")).save()?;
        }
        if self.part.fails == Some(now) {
            bail!("a failure of the test's own");
        }
        if self.part.stops == Some(now) {
            task.stop("a stop of the test's own")?;
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        Marker::mark(task);
        Ok(())
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        Marker::mark(task);
        Ok(())
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        Marker::mark(task);
        Ok(())
    }

    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        _checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        Marker::mark(task);
        Ok(())
    }

    fn after_run(&mut self, task: &mut AfterRun<'_>, _outcome: &Outcome<'_>) -> Result<()> {
        Marker::mark(task);
        Ok(())
    }
}

/// An action of the tested hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::validate) struct Act {
    /// Point in the run, as worded by the marker.
    pub(in crate::validate) moment: String,
    /// Name of the hook.
    pub(in crate::validate) hook: String,
    /// Description of the action.
    pub(in crate::validate) action: String,
    /// The value published, if any.
    pub(in crate::validate) value: String,
}

/// Records what the tested hooks log and do.
#[derive(Default)]
pub(in crate::validate) struct Recorder {
    /// Whether all requests of hooks are refused.
    refuses: bool,
    /// Whether nothing is recorded, for measurements.
    is_deaf: bool,
    moment: RefCell<String>,
    pub(in crate::validate) acts: RefCell<Vec<Act>>,
    pub(in crate::validate) lines: RefCell<Vec<(String, String)>>,
    /// The kinds of tensors that hooks could write to.
    pub(in crate::validate) written: RefCell<Vec<Collection>>,
    /// Memory in use once a long run has settled, and at its end, while hooks are still alive.
    pub(in crate::validate) settled: Cell<Option<u64>>,
    pub(in crate::validate) ended: Cell<Option<u64>>,
    /// Number of refused requests.
    pub(in crate::validate) refused: Cell<u64>,
    /// Whether hooks made requests other than saving checkpoints.
    pub(in crate::validate) has_asked: Cell<bool>,
}

impl Recorder {
    pub(in crate::validate) fn new(refuses: bool, is_deaf: bool) -> Recorder {
        Recorder {
            refuses,
            is_deaf,
            ..Recorder::default()
        }
    }
}

impl Witness for Recorder {
    fn sees(&self, hook: &str, action: &HookAction<'_>) -> std::result::Result<(), String> {
        if !hook.starts_with(SUBJECT) {
            return Ok(());
        }
        // At creation these are not requests to the run, but statements about the hook itself.
        if let HookAction::Asks { request, .. } = action {
            if Request::from_name(request).is_some_and(Request::is_of_creation) {
                return Ok(());
            }
            let is_saving = matches!(*request, "save_checkpoint" | "save_in_background");
            self.has_asked.set(self.has_asked.get() || !is_saving);
        }
        if self.refuses {
            self.refused.set(self.refused.get() + 1);
            return Err("this host refuses everything: it is a test".to_owned());
        }
        if let HookAction::Writes(collection) = action
            && !self.written.borrow().contains(collection)
        {
            self.written.borrow_mut().push(*collection);
        }
        if !self.is_deaf {
            let (action, value) = in_words(action);
            self.acts.borrow_mut().push(Act {
                moment: self.moment.borrow().clone(),
                hook: hook.to_owned(),
                action,
                value,
            });
        }
        Ok(())
    }
}

/// Description of an action, and the published value with all bits of the numbers.
fn in_words(action: &HookAction<'_>) -> (String, String) {
    match action {
        HookAction::Asks {
            request,
            number,
            text,
        } => (
            format!("asks for {request} {number:?} {text:?}"),
            String::new(),
        ),
        HookAction::Metric { name, value } => (
            format!("publishes the metric {name:?}"),
            format!("{value:?}"),
        ),
        HookAction::Value { name, json } => {
            let value = json.unwrap_or("(a tensor)").to_owned();
            (format!("publishes {name:?}"), value)
        }
        HookAction::Loss { value } => ("gives the loss".to_owned(), format!("{value:?}")),
        HookAction::Writes(collection) => (format!("writes to {collection:?}"), String::new()),
    }
}

impl Act {
    /// The request, if it is one.
    pub(in crate::validate) fn request(&self) -> Option<Request> {
        let asked = self.action.strip_prefix("asks for ")?;
        Request::from_name(asked.split(' ').next()?)
    }

    /// Whether both are equal apart from the value.
    pub(in crate::validate) fn is_like(&self, other: &Act) -> bool {
        self.moment == other.moment && self.hook == other.hook && self.action == other.action
    }

    /// Whether a tensor was lent for writing.
    pub(in crate::validate) fn is_write(&self) -> bool {
        self.action.starts_with("writes to ")
    }

    /// Whether it concerns the hook alone: where it is called.
    pub(in crate::validate) fn is_of_the_hook(&self) -> bool {
        self.action.contains(Request::ListenAtModules.name())
    }

    /// The action in words.
    pub(in crate::validate) fn told(&self) -> String {
        format!("{} {} at {}", self.action, self.value, self.moment)
    }
}

/// Descriptions of published values that differ between two equal runs, such as measured times.
pub(in crate::validate) fn measured(one: &[Act], other: &[Act]) -> Vec<String> {
    let pairs = one.iter().zip(other);
    let alike = pairs.take_while(|(one, other)| one.is_like(other));
    let mut actions: Vec<String> = alike
        .filter(|(one, other)| one.value != other.value)
        .map(|(one, _)| one.action.clone())
        .collect();
    actions.sort();
    actions.dedup();
    actions
}

impl Log for Recorder {
    fn log(&self, _level: Level, source: &str, message: &str) {
        if source == NAME && self.is_deaf {
            let now = || Holdings::now().map(|now| now.memory);
            if message.starts_with(SETTLED) {
                self.settled.set(now());
            } else if message.starts_with("after_run") {
                self.ended.set(now());
            }
            return;
        }
        if self.is_deaf {
            return;
        }
        if source == NAME {
            message.clone_into(&mut self.moment.borrow_mut());
        } else {
            let line = (source.to_owned(), message.to_owned());
            self.lines.borrow_mut().push(line);
        }
    }
}
