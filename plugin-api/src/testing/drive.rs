//! The loop of a scripted run: the same mount points in the same order as in a host.

use std::collections::BTreeMap;
use std::ptr;

use serde_json::{Value, json};

use super::checkpoint::Checkpoint;
use super::driven::{Creation, Driven};
use super::failed::Failed;
use super::fake::Fake;
use super::plan;
use super::reopen::EpochCounters;
use super::schema;
use super::script::ScriptedRun;
use super::seen::{Directory, RunEnd, Seen};
use super::stage::{FakeGroup, FakeRun};
use crate::abi::{FailureAbi, OutcomeAbi, ProfileAbi, TextAbi, ViewAbi};
use crate::export::Kind;
use crate::ext::{Keep, ResumeTable};
use crate::metadata::HookMetadata;
use crate::{Phase, Point};

/// Why the loop ends early.
pub(super) enum Stopped {
    /// The hook failed.
    Hook(Failed),
    /// The script makes the task fail.
    Task(String),
}

impl From<Failed> for Stopped {
    fn from(failed: Failed) -> Self {
        Stopped::Hook(failed)
    }
}

/// The part of an epoch that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EpochPart {
    Start,
    Epoch,
    Validation,
    Cycle,
}

/// A run in progress.
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are as independent of each other as in a host"
)]
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
    pub(super) part: EpochPart,
    /// Finished batches of the current epoch.
    pub(super) trained: u64,
    /// Where the current epoch began; `None` if `before_epoch` has not been called for it.
    pub(super) begun: Option<EpochCounters>,
    /// Whether `before_epoch` is called again for an epoch that began before a resume or a rollback.
    pub(super) is_reopening: bool,
    pub(super) jumped: bool,
    pub(super) is_evaluating: bool,
    /// Whether the current validation was requested by the hook.
    pub(super) is_asked_for: bool,
    /// Whether a resumed run has started but is not yet restored.
    pub(super) is_resuming: bool,
    /// Tags of saves that are delayed until the end of a validation.
    pub(super) waiting: Vec<String>,
    pub(super) checkpoints: BTreeMap<String, Checkpoint>,
    /// Name of the swapped-in set, and the real parameters.
    pub(super) swapped: Option<(String, Vec<Fake>)>,
    /// Learning rate multipliers of parameters, where they are not 1.
    pub(super) shares: BTreeMap<String, f64>,
    pub(super) accumulated: Option<Vec<Option<Fake>>>,
    /// First batch and end of the current update.
    pub(super) update: (u64, u64),
    interrupt: Option<u64>,
    is_interrupted: bool,
    /// Sum and number of the losses of the current pass.
    pub(super) losses: (f64, f64),
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
            "seed": script.seed,
            "train": {"epochs": script.epochs, "batch_size": script.batch_size},
            "hooks": [entry],
        });
        let stage = Box::<FakeRun>::default();
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
            part: EpochPart::Start,
            trained: 0,
            jumped: false,
            is_evaluating: false,
            is_asked_for: false,
            begun: None,
            is_reopening: false,
            is_resuming: false,
            waiting: Vec::new(),
            checkpoints: BTreeMap::new(),
            swapped: None,
            shares: BTreeMap::new(),
            accumulated: None,
            update: (0, 0),
            interrupt,
            is_interrupted: false,
            losses: (0.0, 0.0),
        };
        drive.set_stage();
        Ok(drive)
    }

    /// Sets the task to its initial state.
    fn set_stage(&mut self) {
        let (script, stage) = (self.script, &self.stage);
        stage.parameters.borrow_mut().clone_from(&script.parameters);
        let group = |name: &str, scale: f64| FakeGroup {
            name: name.into(),
            learning_rate: script.learning_rate * scale,
            scale,
            momentum: 0.9,
        };
        let others = script
            .groups
            .iter()
            .map(|(name, scale)| group(name, *scale));
        *stage.groups.borrow_mut() = std::iter::once(group("default", 1.0))
            .chain(others)
            .collect();
        for entry in &script.values {
            stage.values.borrow_mut().set(entry.clone());
        }
        let learned = script.parameters.iter().filter(|tensor| !tensor.is_buffer);
        let mut metrics: Vec<&str> = Vec::new();
        for (_, name, _) in &script.metrics {
            if name != "loss" && !metrics.contains(&name.as_str()) {
                metrics.push(name);
            }
        }
        let modules = script.modules.iter();
        let modules: Vec<Value> = modules
            .map(|module| json!({"name": module.name, "kind": module.kind}))
            .collect();
        let facts = json!({
            "run": "scripted",
            "run_directory": self.directory.path(),
            "seed": script.seed,
            "rank": 0,
            "world_size": 1,
            "classes": script.classes,
            "sample_shape": script.sample_shape,
            "metrics": metrics,
            "modules": modules,
            "parameter_count": learned.map(Fake::len).sum::<usize>(),
        });
        *stage.facts.borrow_mut() = facts.to_string().into();
        self.view = ViewAbi {
            epochs: script.epochs,
            ..ViewAbi::EMPTY
        };
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
        let mut result = self.body(None);
        if self.is_interrupted && result.is_ok() {
            result = self.interrupted();
        }
        let (end, failed) = match result {
            Ok(()) => (self.end(), None),
            Err(Stopped::Task(error)) => (self.fail(0, &error), None),
            Err(Stopped::Hook(failed)) => (self.fail(2, &failed.message), Some(failed)),
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
        match &*self.stage.stop.borrow() {
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
        self.enter(Phase::Train);
        match self.call_with(Point::AfterRun, &payload) {
            Err(Stopped::Hook(failed)) => Err(failed),
            _ => Ok(()),
        }
    }

    /// Ends the first part of the run and resumes it with a new hook.
    fn interrupted(&mut self) -> Result<(), Stopped> {
        self.save(INTERRUPTED, false)?;
        self.after_run(3, "SIGINT")?;
        let checkpoint = self.checkpoint(INTERRUPTED, "resume from")?;
        self.checkpoints.remove(INTERRUPTED);
        self.is_interrupted = false;
        let behind = self.stage.seen.borrow().calls.len();
        self.stage.seen.borrow_mut().calls_before_interruption = Some(behind);
        let flags = ResumeTable::RESUMED | ResumeTable::KNOWN;
        self.stage.resume_flags.set(flags);
        self.stage.place.set(None);
        self.stage.left_out.borrow_mut().clear();
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
        let counters = (self.view.epoch, self.view.iteration, self.view.update);
        let samples = self.view.samples;
        self.set_stage();
        // A resumed run shows the restored counters from its beginning.
        (self.view.epoch, self.view.iteration, self.view.update) = counters;
        self.view.samples = samples;
        self.set_clock();
        self.body(Some(&checkpoint))
    }

    fn body(&mut self, resume: Option<&Checkpoint>) -> Result<(), Stopped> {
        self.is_resuming = resume.is_some();
        self.enter(Phase::Train);
        self.call(Point::BeforeRun)?;
        self.enter(Phase::Train);
        self.call(Point::BeforeLoop)?;
        self.is_resuming = false;
        if let Some(checkpoint) = resume {
            self.restore(checkpoint, INTERRUPTED)?;
        }
        self.begin()?;
        while self.has_more_to_train() {
            self.cycle()?;
            self.jumped = false;
            if self.is_interrupted {
                return Ok(());
            }
        }
        self.call(Point::AfterLoop)?;
        if self.script.test > 0 {
            self.evaluate(Phase::Test, self.script.test, false)?;
        }
        Ok(())
    }

    fn stops(&self) -> bool {
        self.stage.stop.borrow().is_some()
    }

    fn stops_now(&self) -> bool {
        let stop = self.stage.stop.borrow();
        stop.as_ref().is_some_and(|stop| !stop.after_epoch)
    }

    fn begin(&mut self) -> Result<(), Stopped> {
        if self.part == EpochPart::Start && !self.stops() {
            if self.script.initial_validation {
                self.validate(true)?;
            }
            self.part = EpochPart::Epoch;
        }
        Ok(())
    }

    fn has_more_to_train(&self) -> bool {
        let is_left = match self.part {
            EpochPart::Start | EpochPart::Epoch => self.view.epoch < self.script.epochs,
            EpochPart::Validation | EpochPart::Cycle => true,
        };
        is_left && !self.stops()
    }

    fn cycle(&mut self) -> Result<(), Stopped> {
        self.begin()?;
        match self.part {
            EpochPart::Start | EpochPart::Epoch => self.epoch()?,
            EpochPart::Validation | EpochPart::Cycle => {
                self.view.batch = self.script.iterations;
                self.view.batches = self.script.iterations;
            }
        }
        if self.jumped || self.is_interrupted {
            return Ok(());
        }
        let is_due = self.view.epoch % self.script.validate_every == 0;
        if self.part == EpochPart::Validation && (is_due || self.view.epoch == self.script.epochs) {
            self.validate(false)?;
        }
        self.part = EpochPart::Epoch;
        self.call(Point::AfterCycle)
    }

    fn epoch(&mut self) -> Result<(), Stopped> {
        let batches = self.script.iterations;
        let done = self.trained;
        let start = self.begun;
        if start.is_none() {
            self.stage.board.borrow_mut().begin(Phase::Train);
            self.stage.values.borrow_mut().forget(Keep::Epoch);
            self.view.ordinal = 0;
            self.losses = (0.0, 0.0);
        }
        self.begin_pass(batches);
        self.view.batch = done;
        self.begun = start.or_else(|| Some(self.epoch_start()));
        match start {
            Some(start) => self.reopen(start)?,
            None => self.call(Point::BeforeEpoch)?,
        }
        if self.jumped {
            return Ok(());
        }
        for batch in done..batches {
            if !(self.update.0..self.update.1).contains(&batch) {
                let planned = self.script.accumulate;
                let (begin, count) = match self.stage.accumulation.get() {
                    Some(count) => (batch, count),
                    None => (batch - batch % planned, planned),
                };
                self.update = (begin, batches.min(begin + count));
            }
            self.iteration(batch)?;
            if self.jumped {
                return Ok(());
            }
            if self.interrupt == Some(self.view.iteration) {
                self.interrupt = None;
                self.is_interrupted = true;
                return Ok(());
            }
            if self.stops_now() {
                break;
            }
        }
        if self.view.batch == batches {
            self.view.epoch += 1;
            self.trained = 0;
            self.begun = None;
            self.update = (0, 0);
            self.part = EpochPart::Validation;
        }
        self.end_pass()
    }

    pub(super) fn validate(&mut self, is_initial: bool) -> Result<(), Stopped> {
        if self.script.validation == 0 {
            return Ok(());
        }
        self.evaluate(Phase::Val, self.script.validation, is_initial)?;
        self.view.ordinal += u64::from(!is_initial);
        Ok(())
    }

    /// Runs a pass that changes no parameters.
    fn evaluate(&mut self, phase: Phase, batches: u64, is_initial: bool) -> Result<(), Stopped> {
        let (losses, pass) = (self.losses, ViewAbi { ..copy(&self.view) });
        if is_initial {
            self.view.flags |= ViewAbi::INITIAL;
        }
        self.enter(phase);
        self.is_evaluating = true;
        self.call(Point::BeforeLoop)?;
        self.stage.board.borrow_mut().begin(phase);
        self.losses = (0.0, 0.0);
        self.begin_pass(batches);
        self.call(Point::BeforeEpoch)?;
        for batch in 0..batches {
            self.evaluation_batch(phase, batch)?;
        }
        self.end_pass()?;
        self.is_evaluating = false;
        if phase == Phase::Val {
            self.part = match self.part {
                EpochPart::Start if is_initial => EpochPart::Epoch,
                EpochPart::Validation if !self.is_asked_for => EpochPart::Cycle,
                other => other,
            };
        }
        self.call(Point::AfterLoop)?;
        for tag in std::mem::take(&mut self.waiting) {
            self.save(&tag, false)?;
        }
        self.view.flags &= !ViewAbi::INITIAL;
        self.enter(Phase::Train);
        let of_pass = ViewAbi::HAS_LOSS | ViewAbi::UPDATES;
        self.view.batch = pass.batch;
        self.view.batches = pass.batches;
        self.view.batch_size = pass.batch_size;
        self.view.loss = pass.loss;
        self.view.flags = self.view.flags & !of_pass | pass.flags & of_pass;
        self.losses = losses;
        Ok(())
    }

    fn begin_pass(&mut self, batches: u64) {
        self.view.batch = 0;
        self.view.batches = batches;
        self.view.batch_size = 0;
        self.view.flags &= !(ViewAbi::HAS_LOSS | ViewAbi::UPDATES);
    }

    /// Calls `after_epoch`, then `epoch_profile`.
    fn end_pass(&mut self) -> Result<(), Stopped> {
        self.view.batch_size = 0;
        self.call(Point::AfterEpoch)?;
        if self.jumped {
            return Ok(());
        }
        let total = self.view.batch as f64 * self.script.seconds_per_iteration;
        let payload = ProfileAbi {
            total,
            data: total * 0.1,
            forward: total * 0.3,
            loss: total * 0.1,
            backward: total * 0.3,
            update: total * 0.1,
            hooks: ptr::null(),
            hook_count: 0,
        };
        self.call_with(Point::EpochProfile, &payload)
    }

    fn enter(&mut self, phase: Phase) {
        self.view.phase = phase.number();
        self.view.stream = TextAbi::new(phase.name());
    }

    /// Sets the run's clock, which advances with finished iterations.
    pub(super) fn set_clock(&self) {
        let seconds = self.script.seconds_per_iteration;
        let total = self.script.epochs * self.script.iterations;
        let left = total.saturating_sub(self.view.iteration);
        self.stage.elapsed.set(self.view.iteration as f64 * seconds);
        let is_known = self.view.iteration > 0;
        self.stage.remaining.set(if is_known {
            left as f64 * seconds
        } else {
            -1.0
        });
    }

    /// Calls the hook at a mount point and serves its requests.
    pub(super) fn call(&mut self, point: Point) -> Result<(), Stopped> {
        let is_called = self.points.contains(&point.number());
        let is_of_modules = matches!(point, Point::ModuleForward | Point::ModuleBackward);
        if !is_called || (is_of_modules && !self.listens) {
            return Ok(());
        }
        self.stage.begin_call(point, &mut self.view);
        let result = self.hook.call(&self.stage, &self.view);
        self.stage.end_call(&mut self.view);
        self.view.payload = ptr::null();
        result?;
        self.serve()
    }

    /// Calls the hook with the payload of a mount point, whose type is frozen per point.
    pub(super) fn call_with<T>(&mut self, point: Point, payload: &T) -> Result<(), Stopped> {
        self.view.payload = ptr::from_ref(payload).cast();
        let result = self.call(point);
        self.view.payload = ptr::null();
        result
    }

    /// A request that cannot be served: an error of the hook.
    pub(super) fn blame(&self, message: &str) -> Stopped {
        Stopped::Hook(Failed::new(self.stage.place.get(), message))
    }
}

/// Tag of the checkpoint that an interrupted run saves.
const INTERRUPTED: &str = "interrupted";

fn copy(view: &ViewAbi) -> ViewAbi {
    ViewAbi {
        batch: view.batch,
        batches: view.batches,
        batch_size: view.batch_size,
        loss: view.loss,
        flags: view.flags,
        ..ViewAbi::EMPTY
    }
}

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
        seed: script.seed,
    };
    Driven::create(&creation, stage)
}

/// The mount points that the hook overrides, without those that it opted out of.
fn points(kind: &Kind, stage: &FakeRun) -> Vec<u32> {
    let metadata: Option<HookMetadata> = serde_json::from_str(kind.metadata()).ok();
    let points = metadata.map(|metadata| metadata.points).unwrap_or_default();
    let left_out = stage.left_out.borrow();
    let is_left_out = |number: u32| left_out.iter().any(|point| point.number() == number);
    let numbers = points.iter().map(|point| point.number);
    numbers.filter(|&number| !is_left_out(number)).collect()
}
