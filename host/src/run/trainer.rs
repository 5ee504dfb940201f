//! A run from `before_run` to `after_run`.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr;

use sconce_plugin_api::abi::{FailureAbi, OutcomeAbi, TextAbi, ViewAbi};
use sconce_plugin_api::{Phase, Point};
use serde_json::{Value, json};

use super::background::Writing;
use super::costs::Costs;
use super::evaluate::Evaluation;
use super::modules::Record;
use super::profile::{PassTimes, Profile};
use super::resume::Resume;
use super::save::{Manner, Midst};
use super::swap::Swapped;
use super::{Interrupt, Observer, Outcome, Plan, Remote, Report, RunError, Signal};
use crate::bridge::Shared;
use crate::checkpoint::{EpochStart, HookRecord, Stage, Store};
use crate::dispatch::{Dispatcher, HookFault};
use crate::gradients::Gradients;
use crate::nn::ModuleInfo;
use crate::optim::Optimizer;
use crate::task::Task;

/// Trains a task, and calls hooks at the mount points.
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts about the training"
)]
pub struct Trainer<'run> {
    pub(super) task: &'run mut dyn Task,
    pub(super) optimizer: &'run mut dyn Optimizer,
    pub(super) hooks: Dispatcher,
    pub(super) shared: &'run Shared<'run>,
    pub(super) plan: Plan,
    /// The counters, and everything else that hooks read directly.
    pub(super) view: ViewAbi,
    /// The gradients of the micro-batches since the last update.
    pub(super) accumulated: Option<Gradients>,
    /// A place for the values of the task's metrics.
    pub(super) values: Vec<f64>,
    pub(super) audited: bool,
    /// The iteration of the first training loss that was not finite, of which a warning told.
    pub(super) bad_loss: Option<u64>,
    /// The first training loss that this process saw and that was finite.
    pub(super) first_loss: Option<f64>,
    /// What the training does next, for checkpoints.
    pub(super) stage: Stage,
    /// The batches finished of the training epoch under way.
    pub(super) trained: u64,
    /// The batches of the training epoch under way that belong to the present update, or the last one.
    pub(super) update_of: Range<u64>,
    /// A roll back has set all counters: the loops under way are left.
    pub(super) jumped: bool,
    /// The parameters that are swapped for a published set.
    pub(super) swapped: Option<Swapped>,
    /// The published set that stood in the parameters' place in the last evaluation; none where they were in
    /// it themselves.
    pub(super) measured: Option<String>,
    /// Where the training epoch under way began; none where `before_epoch` has not been called for it.
    pub(super) begun: Option<EpochStart>,
    /// `before_epoch` is called for an epoch that was begun before a resume or a roll back.
    pub(super) is_reopening: bool,
    /// The task's modules, and what the backward pass is to tell of them.
    pub(super) modules: Vec<ModuleInfo>,
    pub(super) records: Vec<Record>,
    /// Where a failure would leave the iteration.
    pub(super) midst: Midst,
    /// The validation or test under way.
    pub(super) evaluation: Evaluation,
    /// The saves that wait: tags, hooks and how.
    pub(super) waiting: Vec<(String, String, Manner)>,
    /// The checkpoint that is being written.
    pub(super) writing: Option<Writing>,
    /// The run's output directory.
    directory: Option<PathBuf>,
    /// Its checkpoints.
    pub(super) store: Option<Store>,
    pub(super) name: String,
    /// The resolved manifest.
    pub(super) manifest: Value,
    /// The checkpoints saved so far.
    pub(super) checkpoints: Vec<PathBuf>,
    /// The last whole one.
    pub(super) last_checkpoint: Option<PathBuf>,
    /// What the run goes on from, until it does.
    pub(super) resume: Option<Resume>,
    /// The iteration from which it went on.
    pub(super) resumed_at: Option<u64>,
    /// The run is not quite the one that the checkpoint was saved of.
    pub(super) is_changed: bool,
    /// Asks the run to end soon.
    pub(super) interrupt: Interrupt,
    /// What has asked for it, once the run has heard.
    pub(super) interrupted_by: Option<Signal>,
    /// Asks other things of the run.
    pub(super) remote: Remote,
    /// Watches the run.
    pub(super) observer: Option<&'run dyn Observer>,
    /// The hooks of earlier parts of the run that are no more, with their states.
    pub(super) absent: Vec<HookRecord>,
    /// The clock readings of the pass under way.
    pub(super) times: PassTimes,
    /// The times of all passes of each phase that ran.
    profiles: Vec<(Phase, Profile)>,
    costs: Costs,
}

impl<'run> Trainer<'run> {
    /// A run of `task` by `plan`, which nothing has been done of yet.
    pub fn new(
        task: &'run mut dyn Task,
        optimizer: &'run mut dyn Optimizer,
        mut hooks: Dispatcher,
        shared: &'run Shared<'run>,
        plan: Plan,
    ) -> Self {
        shared.set_groups(optimizer.groups());
        shared.has_momentum.set(optimizer.has_momentum());
        let modules = task.modules();
        hooks.set_modules(&modules);
        shared.tensors.set_parameters(task.parameters());
        let values = vec![0.0; task.metrics().len()];
        let view = ViewAbi {
            epochs: plan.epochs,
            learning_rate: optimizer.learning_rate(),
            ..ViewAbi::EMPTY
        };
        Trainer {
            task,
            optimizer,
            hooks,
            shared,
            plan,
            view,
            accumulated: None,
            values,
            audited: false,
            bad_loss: None,
            first_loss: None,
            stage: Stage::Start,
            trained: 0,
            update_of: 0..0,
            jumped: false,
            swapped: None,
            measured: None,
            begun: None,
            is_reopening: false,
            modules,
            records: Vec::new(),
            midst: Midst::Torn,
            evaluation: Evaluation::default(),
            waiting: Vec::new(),
            writing: None,
            directory: None,
            store: None,
            name: "run".to_owned(),
            manifest: Value::Null,
            checkpoints: Vec::new(),
            last_checkpoint: None,
            resume: None,
            resumed_at: None,
            is_changed: false,
            interrupt: Interrupt::default(),
            interrupted_by: None,
            remote: Remote::default(),
            observer: None,
            absent: Vec::new(),
            times: PassTimes::begin(),
            profiles: Vec::new(),
            costs: Costs::default(),
        }
    }

    /// Warns of a hook that takes more than this part of a pass, from 0 to 1, rather than of one
    /// that takes a quarter.
    pub fn with_hook_share(mut self, share: f64) -> Self {
        self.costs.share = share;
        self
    }

    /// With a name and an output directory, without which there are no checkpoints. The run makes it where it is
    /// missing when it begins.
    pub fn in_directory(mut self, name: &str, directory: impl Into<PathBuf>) -> Self {
        name.clone_into(&mut self.name);
        let directory = directory.into();
        self.store = Some(Store::of(&directory));
        self.directory = Some(directory);
        self
    }

    /// With the manifest that checkpoints are to have.
    pub fn with_manifest(mut self, manifest: Value) -> Self {
        self.manifest = manifest;
        self
    }

    /// The hooks and the order of their calls.
    pub fn hooks(&self) -> &Dispatcher {
        &self.hooks
    }

    /// Runs to the end, whichever it is. `after_run` reaches every hook.
    pub fn run(self) -> Report {
        self.run_by(Self::body)
    }

    /// Evaluates the data of a phase and trains nothing.
    pub fn evaluate_only(self, phase: Phase) -> Report {
        self.run_by(|trainer| {
            trainer.call(Point::BeforeRun)?;
            trainer.evaluate(phase, false)
        })
    }

    fn run_by(mut self, body: impl FnOnce(&mut Self) -> Result<(), RunError>) -> Report {
        // Set once; a second run over the same state keeps the first one's.
        drop(self.shared.facts.set(self.facts()));
        if let Some(directory) = &self.directory {
            // That it can't be made is the reason of the first file that can't be written.
            drop(std::fs::create_dir_all(directory));
        }
        self.show_optimizer();
        let result = body(&mut self);
        let result = result.and_then(|()| self.settle());
        // Whoever reads the parameters after the run wants the real ones.
        let restored = self.restore_swapped();
        let result = result.and(restored);
        let mut late_faults = Vec::new();
        if let Err(error) = &result {
            late_faults.extend(self.tell_of(error));
            late_faults.extend(self.settle_after_failure());
            late_faults.extend(self.save_failed());
        }
        let outcome = self.outcome(result);
        late_faults.extend(self.finish(&outcome));
        self.report(outcome, late_faults)
    }

    fn body(&mut self) -> Result<(), RunError> {
        self.enter(Phase::Train);
        self.call(Point::BeforeRun)?;
        self.train()?;
        if self.is_interrupted()? {
            return Ok(());
        }
        if self.plan.test && self.task.data(Phase::Test).is_some() {
            self.evaluate(Phase::Test, false)?;
        }
        Ok(())
    }

    /// Calls the hooks of a mount point with no payload.
    #[inline]
    pub(super) fn call(&mut self, point: Point) -> Result<(), RunError> {
        self.hooks.call(point, &mut self.view, self.shared)?;
        if self.shared.requests.is_pending() {
            return self.serve();
        }
        Ok(())
    }

    /// A pass over a phase's data is over: `after_epoch`, then `epoch_profile`.
    pub(super) fn end_pass(&mut self, phase: Phase) -> Result<(), RunError> {
        self.view.batch_size = 0;
        self.call(Point::AfterEpoch)?;
        if self.jumped {
            return Ok(());
        }
        let times = self.hooks.take_times();
        let pass = Profile::of(&self.times, self.hooks.hooks(), &times);
        for warning in self.costs.warnings(phase, &pass, &times) {
            self.shared.warn(&warning);
        }
        self.show_end(phase, &pass);
        let entries = pass.hook_entries();
        let payload = pass.payload(&entries);
        self.view.payload = ptr::from_ref(&payload).cast();
        let result = self.call(Point::EpochProfile);
        self.view.payload = ptr::null();
        match self.profiles.iter_mut().find(|(known, _)| *known == phase) {
            Some((_, profile)) => profile.add(&pass),
            None => self.profiles.push((phase, pass)),
        }
        result
    }

    /// Shows hooks the optimizer's tensors.
    pub(super) fn show_optimizer(&self) {
        let tensors = self.optimizer.tensors(self.task.parameters());
        self.shared.tensors.set_optimizer(tensors);
    }

    /// What does not change during the run, as `sconce.task/1` tells it.
    fn facts(&self) -> String {
        let data = self.task.data(Phase::Train);
        let modules = self.modules.iter();
        let modules: Vec<_> = modules
            .map(|module| json!({"name": module.name, "kind": module.kind}))
            .collect();
        json!({
            "run": self.name,
            "run_directory": self.directory.as_deref().unwrap_or(Path::new("")),
            "seed": self.plan.seed,
            "rank": 0,
            "world_size": 1,
            "classes": data.as_ref().map_or(&[][..], |data| data.class_names()),
            "sample_shape": data.as_ref().map_or(&[][..], |data| data.sample_shape()),
            "metrics": self.task.metrics(),
            "modules": modules,
            "parameter_count": self.task.parameters().element_count(),
        })
        .to_string()
    }

    /// The phase that the view shows from now on.
    pub(super) fn enter(&mut self, phase: Phase) {
        self.view.phase = phase.number();
        self.view.stream = TextAbi::new(phase.name());
    }

    /// `on_exception`.
    fn tell_of(&mut self, error: &RunError) -> Vec<HookFault> {
        let message = error.to_string();
        let payload = FailureAbi {
            origin: error.origin() as u32,
            message: TextAbi::new(&message),
            hook: TextAbi::new(error.hook().unwrap_or_default()),
        };
        self.view.payload = ptr::from_ref(&payload).cast();
        let faults = self
            .hooks
            .call_every(Point::OnException, &mut self.view, self.shared);
        self.view.payload = ptr::null();
        faults
    }

    /// `after_run`.
    fn finish(&mut self, outcome: &Outcome) -> Vec<HookFault> {
        let (kind, reason) = match outcome {
            Outcome::Completed => (0, String::new()),
            Outcome::Stopped { reason, .. } => (1, reason.clone()),
            Outcome::Failed(error) => (2, error.to_string()),
            Outcome::Interrupted(signal) => (3, signal.name().to_owned()),
        };
        let payload = OutcomeAbi {
            kind,
            reason: TextAbi::new(&reason),
        };
        self.enter(Phase::Train);
        self.view.payload = ptr::from_ref(&payload).cast();
        let faults = self
            .hooks
            .call_every(Point::AfterRun, &mut self.view, self.shared);
        self.view.payload = ptr::null();
        faults
    }

    fn outcome(&self, result: Result<(), RunError>) -> Outcome {
        match (result, self.interrupted_by, self.shared.requests.stop()) {
            (Err(error), _, _) => Outcome::Failed(error),
            (Ok(()), Some(signal), _) => Outcome::Interrupted(signal),
            (Ok(()), None, Some(stop)) => Outcome::Stopped {
                reason: stop.reason,
                hook: stop.hook,
            },
            (Ok(()), None, None) => Outcome::Completed,
        }
    }

    fn report(self, outcome: Outcome, mut late_faults: Vec<HookFault>) -> Report {
        let divergence = self.divergence();
        let measured = self.measured_weights();
        late_faults.extend(self.hooks.close(self.shared));
        let board = self.shared.metrics.borrow();
        let of = |phase| {
            let metrics = board.of(phase).iter();
            let metrics: Vec<_> = metrics
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
            (!metrics.is_empty()).then_some((phase, metrics))
        };
        Report {
            outcome,
            divergence,
            late_faults,
            metrics: Phase::ALL.into_iter().filter_map(of).collect(),
            profiles: self.profiles,
            checkpoints: self.checkpoints,
            last_checkpoint: self.last_checkpoint,
            epochs: self.view.epoch,
            iterations: self.view.iteration,
            updates: self.view.update,
            measured,
            seconds: self.shared.clock.elapsed_seconds(),
        }
    }
}
