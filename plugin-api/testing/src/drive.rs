//! A scripted run: creation of the hook, the run, its end, and its resumption.
//!
//! The order of mount points is that of [`lifecycle`](sconce_lifecycle), which hosts follow too; `driver` does the work
//! between them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ptr;

use serde_json::{Value, json};

use super::checkpoint::Checkpoint;
use super::driven::{Creation, Driven};
use super::failed::Failed;
use super::fake::Fake;
use super::plan;
use super::schema;
use super::script::ScriptedRun;
use super::seen::{Directory, RunEnd, Seen};
use super::stage::{FakeEntry, FakeGroup, FakeModel, FakeRun};
use super::uses::Uses;
use sconce_lifecycle::Position;
use sconce_plugin_api::abi::{FailureAbi, OutcomeAbi, TextAbi, ViewAbi};
use sconce_plugin_api::export::Kind;
use sconce_plugin_api::ext::ResumeTable;
use sconce_plugin_api::metadata::{HookMetadata, HookRanks};
use sconce_plugin_api::{Phase, Point};

/// Why the run fails.
pub(super) enum DriveError {
    /// The hook failed.
    Hook(Failed),
    /// The script makes the task fail.
    Task(String),
}

/// A reason to leave the loops of a scripted run.
pub(super) type Leave = sconce_lifecycle::Leave<DriveError>;

impl From<Failed> for DriveError {
    fn from(failed: Failed) -> Self {
        DriveError::Hook(failed)
    }
}

impl From<Failed> for Leave {
    fn from(failed: Failed) -> Self {
        Leave::Failed(DriveError::Hook(failed))
    }
}

/// A run in progress.
pub(super) struct Drive<'a> {
    pub(super) script: &'a ScriptedRun,
    kind: Kind,
    config: String,
    manifest: String,
    pub(super) directory: Directory,
    /// Boxed, as hooks are given its address.
    pub(super) stage: Box<FakeRun>,
    pub(super) view: ViewAbi,
    pub(super) hook: Driven,
    /// Numbers of the mount points at which the hook is called.
    points: Vec<u32>,
    pub(super) listens: bool,
    pub(super) position: Position,
    /// Tags of saves that are delayed until the end of a validation.
    pub(super) waiting: Vec<String>,
    pub(super) checkpoints: BTreeMap<String, Checkpoint>,
    /// Name of the swapped-in set, and the real parameters.
    pub(super) swapped: Option<(String, Vec<Fake>)>,
    /// Learning rate multipliers of parameters, where they are not 1.
    pub(super) shares: BTreeMap<String, f64>,
    pub(super) accumulated: Option<Vec<Option<Fake>>>,
    /// Number of iterations after which the run is interrupted.
    pub(super) interrupt: Option<u64>,
    /// The checkpoint to resume from, until it has been restored.
    pub(super) resumes_from: Option<Checkpoint>,
    /// Sum and number of the losses of each phase's current or last pass.
    pub(super) losses: [(f64, f64); Phase::ALL.len()],
}

impl<'a> Drive<'a> {
    pub(super) fn new(
        script: &'a ScriptedRun,
        kind: Kind,
        config: &Value,
        interrupt: Option<u64>,
    ) -> Result<Drive<'a>, Failed> {
        if let Some(problem) = schema::problem(&kind.schema(), config) {
            return Err(Failed::new(None, problem));
        }
        let directory = match &script.run_directory {
            Some(path) => Directory::of_caller(path),
            None => Directory::new().map_err(|error| {
                Failed::new(None, format_args!("no directory for the run: {error}"))
            })?,
        };
        let name = if script.name.is_empty() {
            kind.name()
        } else {
            &script.name
        };
        let entry = json!({"hook": kind.name(), "name": name, "config": config});
        let manifest = json!({
            "name": "scripted",
            "seed": script.schedule.seed,
            "train": {
                "epochs": script.schedule.epochs,
                "batch_size": script.schedule.batch_size,
                "accumulate": script.schedule.accumulate,
            },
            "optimizer": {
                "kind": "sgd",
                "learning_rate": script.model.learning_rate,
                "momentum": MOMENTUM,
            },
            "hooks": [entry],
        });
        let metadata = metadata(&kind);
        let modules = script.model.modules.iter();
        let modules = modules
            .map(|module| (module.name.clone(), module.width))
            .collect();
        let stage = Box::new(FakeRun {
            ranks: script.ranks.clone(),
            hook: FakeEntry {
                name: name.to_owned(),
                is_on_all_ranks: (metadata.as_ref())
                    .is_some_and(|metadata| metadata.ranks == HookRanks::All),
            },
            uses: Uses::of(metadata.as_ref()),
            model: FakeModel {
                views: Cell::new(script.data.views),
                modules: RefCell::new(modules),
                positions: Cell::new(script.model.positions),
                given_loss: Cell::default(),
            },
            ..FakeRun::default()
        });
        // The stage is new, so this cannot have been set before.
        drop(stage.plan.set(plan::of(script).into()));
        let config = config.to_string();
        let manifest = manifest.to_string();
        let hook = create(script, &kind, &config, &manifest, &directory, &stage)?;
        let mut drive = Drive {
            script,
            points: points(&kind, &stage),
            kind,
            config,
            manifest,
            directory,
            stage,
            view: ViewAbi::EMPTY,
            hook,
            listens: true,
            position: Position::start(script.schedule.epochs),
            waiting: Vec::new(),
            checkpoints: BTreeMap::new(),
            swapped: None,
            shares: BTreeMap::new(),
            accumulated: None,
            interrupt,
            resumes_from: None,
            losses: [(0.0, 0.0); Phase::ALL.len()],
        };
        drive.set_stage();
        Ok(drive)
    }

    /// Sets the task to its initial state.
    fn set_stage(&mut self) {
        let (script, stage) = (self.script, &self.stage);
        stage
            .parameters
            .borrow_mut()
            .clone_from(&script.model.parameters);
        let group = |name: &str, scale: f64| FakeGroup {
            name: name.into(),
            learning_rate: script.model.learning_rate * scale,
            scale,
            momentum: MOMENTUM,
            weight_decay: 0.0,
        };
        let others = script
            .model
            .groups
            .iter()
            .map(|(name, scale)| group(name, *scale));
        *stage.groups.borrow_mut() = std::iter::once(group("default", 1.0))
            .chain(others)
            .collect();
        for entry in &script.values {
            stage.values.borrow_mut().set(entry.clone());
        }
        let learned = script
            .model
            .parameters
            .iter()
            .filter(|tensor| !tensor.is_buffer);
        let mut metrics: Vec<&str> = Vec::new();
        for (_, name, _) in &script.metrics {
            if name != "loss" && !metrics.contains(&name.as_str()) {
                metrics.push(name);
            }
        }
        let modules = script.model.modules.iter();
        let modules: Vec<Value> = modules
            .map(|module| json!({"name": module.name, "kind": module.kind}))
            .collect();
        let facts = json!({
            "run": "scripted",
            "run_directory": self.directory.path(),
            "seed": script.schedule.seed,
            "rank": script.ranks.rank,
            "world_size": script.ranks.size,
            "classes": script.data.classes,
            "sample_shape": script.data.sample_shape,
            "metrics": metrics,
            "modules": modules,
            "parameter_count": learned.map(Fake::len).sum::<usize>(),
        });
        *stage.facts.borrow_mut() = facts.to_string().into();
        self.position = Position::start(script.schedule.epochs);
        self.set_clock();
    }

    pub(super) fn entry_name(&self) -> &str {
        if self.script.name.is_empty() {
            self.kind.name()
        } else {
            &self.script.name
        }
    }

    /// Drives the hook to the end of the run.
    pub(super) fn run(mut self) -> Result<Seen, Failed> {
        let mut result = sconce_lifecycle::run(&mut self);
        if matches!(result, Err(Leave::Interrupted)) {
            result = self.interrupted();
        }
        let (end, failed) = match result.err().and_then(Leave::error) {
            None => (self.end(), None),
            Some(DriveError::Task(error)) => (self.fail(0, &error), None),
            Some(DriveError::Hook(failed)) => (self.fail(2, &failed.message), Some(failed)),
        };
        let finished = self.finish(&end);
        let state = self.hook.save_state(&self.stage);
        let mut seen = self.stage.seen.take();
        seen.end = end;
        seen.directory = self.directory.clone();
        seen.checkpoints = self.checkpoints.keys().cloned().collect();
        let parameters = self.stage.parameters.borrow();
        seen.parameters = (parameters.iter())
            .map(|tensor| (tensor.name.to_string(), tensor.floats()))
            .collect();
        drop(parameters);
        let late = finished.err().or_else(|| match &state {
            Ok(_) => None,
            Err(failed) => Some(failed.clone()),
        });
        seen.state = state.unwrap_or_default();
        match failed.or(late) {
            Some(failed) => Err(Failed {
                seen: Box::new(seen),
                ..failed
            }),
            None => Ok(seen),
        }
    }

    fn end(&self) -> RunEnd {
        match &*self.stage.requests.stop.borrow() {
            Some(stop) => RunEnd::Stopped {
                reason: stop.reason.clone(),
            },
            None => RunEnd::Completed,
        }
    }

    /// Calls `on_exception`.
    fn fail(&mut self, origin: u32, error: &str) -> RunEnd {
        let name = self.entry_name().to_owned();
        let payload = FailureAbi {
            origin,
            message: TextAbi::new(error),
            hook: TextAbi::new(if origin == 2 { &name } else { "" }),
        };
        // Only the first error is reported.
        drop(self.call_with(Point::OnException, &payload));
        RunEnd::Failed {
            error: error.to_owned(),
        }
    }

    /// Calls `after_run`.
    fn finish(&mut self, end: &RunEnd) -> Result<(), Failed> {
        let (kind, reason) = match end {
            RunEnd::Completed => (0, ""),
            RunEnd::Stopped { reason } => (1, reason.as_str()),
            RunEnd::Failed { error } => (2, error.as_str()),
        };
        self.after_run(kind, reason)
    }

    fn after_run(&mut self, kind: u32, reason: &str) -> Result<(), Failed> {
        let payload = OutcomeAbi {
            kind,
            reason: TextAbi::new(reason),
        };
        self.position.phase = Phase::Train;
        match self.call_with(Point::AfterRun, &payload) {
            Err(Leave::Failed(DriveError::Hook(failed))) => Err(failed),
            _ => Ok(()),
        }
    }

    /// Ends the first part of the run and resumes it with a new hook.
    fn interrupted(&mut self) -> Result<(), Leave> {
        self.save(INTERRUPTED, false)?;
        self.after_run(3, "SIGINT")?;
        let checkpoint = self.checkpoint(INTERRUPTED, "resume from")?;
        self.checkpoints.remove(INTERRUPTED);
        let behind = self.stage.seen.borrow().calls.len();
        self.stage.seen.borrow_mut().calls_before_interruption = Some(behind);
        let flags = ResumeTable::RESUMED | ResumeTable::KNOWN;
        self.stage.resume_flags.set(flags);
        self.stage.place.set(None);
        self.stage.requests.left_out.borrow_mut().clear();
        // A stop is not part of a checkpoint: a hook that still wants it asks again.
        self.stage.requests.stop.replace(None);
        *self.stage.values.borrow_mut() = super::values::FakeValues::default();
        (self.listens, self.swapped) = (true, None);
        self.hook = create(
            self.script,
            &self.kind,
            &self.config,
            &self.manifest,
            &self.directory,
            &self.stage,
        )?;
        self.points = points(&self.kind, &self.stage);
        let counters = self.position.clone();
        self.set_stage();
        // A resumed run shows the restored counters from its beginning.
        self.position.epoch = counters.epoch;
        self.position.iteration = counters.iteration;
        self.position.update = counters.update;
        self.position.samples = counters.samples;
        self.set_clock();
        self.resumes_from = Some(checkpoint);
        sconce_lifecycle::run(self)
    }

    /// Sets the run's clock, which advances with finished iterations.
    pub(super) fn set_clock(&self) {
        let seconds = self.script.schedule.seconds_per_iteration;
        let total = self.script.schedule.epochs * self.script.schedule.iterations;
        let left = total.saturating_sub(self.position.iteration);
        self.stage
            .clock
            .elapsed
            .set(self.position.iteration as f64 * seconds);
        let is_known = self.position.iteration > 0;
        self.stage.clock.remaining.set(if is_known {
            left as f64 * seconds
        } else {
            -1.0
        });
    }

    /// Calls the hook at a mount point and serves its requests.
    pub(super) fn call_hook(&mut self, point: Point) -> Result<(), Leave> {
        let is_called = self.points.contains(&point.number());
        let is_of_modules = matches!(point, Point::ModuleForward | Point::ModuleBackward);
        if !is_called || (is_of_modules && !self.listens) {
            return Ok(());
        }
        self.position.show_in(&mut self.view);
        self.stage.begin_call(point, &mut self.view);
        let result = self.hook.call(&self.stage, &self.view);
        self.stage.end_call(&mut self.view);
        self.view.payload = ptr::null();
        result?;
        if let Some(unlisted) = self.stage.uses.take_unlisted() {
            return Err(self.blame(&unlisted));
        }
        self.serve()
    }

    /// Calls the hook with the payload of a mount point, whose type is frozen per point.
    pub(super) fn call_with<T>(&mut self, point: Point, payload: &T) -> Result<(), Leave> {
        self.view.payload = ptr::from_ref(payload).cast();
        let result = self.call_hook(point);
        self.view.payload = ptr::null();
        result
    }

    /// A request that cannot be served: an error of the hook.
    pub(super) fn blame(&self, message: &str) -> Leave {
        Failed::new(self.stage.place.get(), message).into()
    }
}

/// Momentum of all groups of the optimizer.
const MOMENTUM: f64 = 0.9;

/// Tag of the checkpoint that an interrupted run saves.
pub(super) const INTERRUPTED: &str = "interrupted";

fn create(
    script: &ScriptedRun,
    kind: &Kind,
    config: &str,
    manifest: &str,
    directory: &Directory,
    stage: &FakeRun,
) -> Result<Driven, Failed> {
    let creation = Creation {
        kind,
        config,
        name: if script.name.is_empty() {
            kind.name()
        } else {
            &script.name
        },
        run_directory: &directory.path().to_string_lossy(),
        manifest,
        seed: script.schedule.seed,
    };
    stage.uses.begin_creation();
    Driven::create(&creation, stage)
}

fn metadata(kind: &Kind) -> Option<HookMetadata> {
    serde_json::from_str(kind.metadata()).ok()
}

/// The mount points that the hook overrides, without those that it opted out of.
fn points(kind: &Kind, stage: &FakeRun) -> Vec<u32> {
    let points = metadata(kind)
        .map(|metadata| metadata.points)
        .unwrap_or_default();
    let left_out = stage.requests.left_out.borrow();
    let is_left_out = |number: u32| left_out.iter().any(|point| point.number() == number);
    let numbers = points.iter().map(|point| point.number);
    numbers.filter(|&number| !is_left_out(number)).collect()
}
