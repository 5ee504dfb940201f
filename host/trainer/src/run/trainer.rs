//! Runs a training from `before_run` to `after_run`.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use sconce_lifecycle::{Position, RunDriver};
use sconce_plugin_api::abi::{FailureAbi, OutcomeAbi, TextAbi};
use sconce_plugin_api::{Keep, Phase, Point, RUN_TIMES};
use serde_json::Value;

use super::checkpoints::resumption::Resumption;
use super::checkpoints::saver::Saver;
use super::failure::Leave;
use super::iteration::feed::Feed;
use super::iteration::hook_passes::HookPasses;
use super::iteration::learning::{Learning, RunContext};
use super::outside::facts::facts;
use super::outside::sources::Outside;
use super::ranks::state::Ranks;
use super::timing::passes::Timing;
use super::weights::kept::{self, FinalMetrics};
use super::weights::sets::Sets;
use super::{
    Divergence, ErrorOrigin, Interrupt, Observer, ReloadService, Remote, RunError, RunOutcome,
    RunReport, StartTimes, Trainer, TrainingPlan, device_of,
};
use crate::bridge::{BridgeState, ValueContent};
use crate::checkpoint::Store;
use crate::data::{DataFile, Dataset};
use crate::dispatch::{Dispatcher, HookFault, Payload};
use crate::manifest::DistributedConfig;
use crate::optim::Optimizer;
use crate::task::Task;
use crate::team::{Summation, Team};

impl<'run> Trainer<'run> {
    /// A run of `task` that follows `plan`, not yet started.
    pub fn new(
        task: &'run mut dyn Task,
        optimizer: &'run mut dyn Optimizer,
        mut hooks: Dispatcher,
        shared: &'run BridgeState<'run>,
        plan: TrainingPlan,
    ) -> Self {
        shared.set_groups(optimizer.groups());
        shared.optimizer.has_momentum.set(optimizer.has_momentum());
        let modules = task.modules();
        let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
        hooks.set_modules(&names);
        shared.tensors.set_parameters(task.parameters());
        shared.device.gpu.set(&device_of(task));
        let hook_passes = HookPasses::of(task);
        shared.set_forward(Rc::<HookPasses>::clone(&hook_passes));
        shared.model.given_losses.expect();
        Trainer {
            feed: Feed::default(),
            hook_passes,
            learning: Learning::new(task, optimizer, &plan),
            task,
            hooks,
            shared,
            position: Position::start(plan.epochs),
            plan,
            tested: Phase::Test,
            sets: Sets::default(),
            saver: Saver::nowhere(),
            resumption: Resumption::default(),
            outside: Outside::default(),
            timing: Timing::new(),
            ranks: None,
            is_within_call: false,
        }
    }

    /// Trains together with the other ranks of a team, over which `summation` sums the gradients.
    pub fn together(
        mut self,
        team: &Team,
        config: &DistributedConfig,
        summation: Summation,
    ) -> Self {
        self.ranks = Some(Ranks::new(team.clone(), config.clone(), summation));
        self.shared.requests.keep_pending();
        self
    }

    /// Reads losses and metrics late on the CPU too, as on a device. For tests: nothing is gained there.
    pub fn measuring_deferred(mut self) -> Self {
        self.learning.measures.deferral.is_forced = true;
        self
    }

    /// Sets the fraction of a pass, from 0 to 1, above which a hook causes a warning. Default 0.25.
    pub fn with_hook_time_limit(mut self, share: f64) -> Self {
        self.timing.costs.fraction = share;
        self
    }

    /// Counts the time since `origin`, before the run begins, of which the steps in `start` are known.
    pub fn started(mut self, origin: Instant, start: StartTimes) -> Self {
        self.timing.wall.count_start(origin, start);
        self
    }

    /// Counts the time since `origin` only, in a process that began long before its run.
    pub fn begun_at(mut self, origin: Instant) -> Self {
        self.timing.wall.set_origin(origin);
        self
    }

    /// Sets a name and an output directory, without which there are no checkpoints. A missing directory is
    /// created when the run begins.
    pub fn in_directory(mut self, name: &str, directory: impl Into<PathBuf>) -> Self {
        name.clone_into(&mut self.saver.name);
        let directory = directory.into();
        let learnt = self.task.preprocessing();
        self.saver.store = Some(Store::of(&directory).with_rows_of(learnt.clone()));
        self.saver.directory = Some(directory);
        self.saver.preprocessing = learnt
            .map(|learnt| learnt.to_files())
            .unwrap_or_default()
            .into();
        self
    }

    /// Saves checkpoints here: in a directory that is held already, or in that of another rank.
    pub fn saving_to(mut self, store: Store) -> Self {
        self.saver.store = Some(store.with_rows_of(self.task.preprocessing()));
        self
    }

    /// Sets the manifest to be stored in checkpoints.
    pub fn with_manifest(mut self, manifest: Value) -> Self {
        self.saver.manifest = manifest;
        self
    }

    /// Sets the files that the data were read from, to be stored in checkpoints.
    pub fn with_data_files(mut self, files: Vec<DataFile>) -> Self {
        self.saver.files = files;
        self
    }

    /// Makes the run end soon after `interrupt` is raised. The iteration or validation in progress is
    /// finished, and a checkpoint saved.
    pub fn interruptible(mut self, interrupt: &Interrupt) -> Self {
        self.outside.interrupt = interrupt.clone();
        self
    }

    /// Ends the run once this many epochs are trained and validated, to be resumed later; not if that is its own end.
    pub fn until(mut self, epochs: Option<u64>) -> Self {
        self.outside.until = epochs;
        self
    }

    /// Lets `remote` make requests of the run.
    pub fn asked_by(mut self, remote: &Remote) -> Self {
        self.outside.remote = remote.clone();
        self
    }

    /// Lets hooks' libraries be loaded again.
    pub fn reloading(mut self, service: ReloadService<'run>) -> Self {
        self.outside.reloads = Some(service);
        self
    }

    /// Adds an observer of the run.
    pub fn watched_by(mut self, observer: &'run dyn Observer) -> Self {
        self.outside.observer = Some(observer);
        self
    }

    /// The hooks and the order of their calls.
    pub fn hooks(&self) -> &Dispatcher {
        &self.hooks
    }

    /// Runs to the end. `after_run` is called for every hook, however the run ends.
    pub fn run(self) -> RunReport {
        let shared = self.shared;
        let (mut report, hooks) = self.run_and_keep_hooks();
        report.close_hooks(hooks, shared);
        report
    }

    /// As [`run`](Trainer::run), but leaves the hooks to be [closed](RunReport::close_hooks) by the caller: once the results
    /// are written, which a hook that does not come back can then no longer cost.
    pub fn run_and_keep_hooks(self) -> (RunReport, Dispatcher) {
        self.run_by(sconce_lifecycle::run)
    }

    /// Evaluates the data of a phase without training. Training data are measured in a pass of the test, as hooks see it: in
    /// their order, without augmentation and dropout.
    pub fn evaluate_only(mut self, phase: Phase) -> RunReport {
        let pass = match phase {
            Phase::Train => Phase::Test,
            phase => phase,
        };
        if pass != phase {
            self.tested = phase;
        }
        let shared = self.shared;
        let (mut report, hooks) = self.run_by(|trainer| {
            trainer.call_hooks(Point::BeforeRun)?;
            sconce_lifecycle::evaluate(trainer, pass, false)
        });
        for (measured, _) in &mut report.metrics.metrics {
            *measured = phase;
        }
        report.close_hooks(hooks, shared);
        report
    }

    /// Returns the samples of a phase's passes.
    pub(super) fn data_of(&self, phase: Phase) -> Option<Arc<dyn Dataset>> {
        self.task.data(match phase {
            Phase::Test => self.tested,
            phase => phase,
        })
    }

    fn run_by(
        mut self,
        body: impl FnOnce(&mut Self) -> Result<(), Leave>,
    ) -> (RunReport, Dispatcher) {
        let device = self.task.parameters().device().clone();
        let _precision = self.plan.precision.begin(&device);
        self.timing.wall.begin_run();
        self.hooks.begin_run();
        // Set once; a second run over the same state keeps the first one's facts.
        let modules = &self.learning.forward.modules;
        let facts = facts(
            self.task,
            modules,
            (&self.saver.name, self.saver.directory.as_deref()),
            self.plan.seed,
            self.ranked(),
        );
        drop(self.shared.known.facts.set(facts));
        let is_held = |store: &Store| store.run_directory().is_held();
        if let Some(directory) = &self.saver.directory
            && !self.saver.store.as_ref().is_some_and(is_held)
        {
            // If it can't be created, writing the first file will fail and report the reason.
            drop(std::fs::create_dir_all(directory));
        }
        self.saver.store = self.saver.store.take().map(Store::holding);
        self.learning
            .stepper
            .show(self.task.parameters(), self.shared);
        (self.learning.measures).begin(self.task, self.shared, self.ranks.is_none());
        let mut error = body(&mut self).err().and_then(Leave::error);
        if error.is_none() {
            error = self.settle_writing().err().and_then(Leave::error);
        }
        if error.is_none() {
            error = self.settle_measures().err();
        }
        if error.is_none() {
            error = self.expect_same_parameters().err();
        }
        if let Some(ranks) = &self.ranks {
            error = ranks.end(error);
        }
        // Parameters read after the run must be the real ones.
        let restored = self.sets.swap_back(&self.position);
        let result = error.map_or(Ok(()), Err).and(restored);
        let mut late_faults = Vec::new();
        if let Err(error) = &result {
            // Requests of hooks that were called before the one that failed; on ranks they are voted on, and are all the same.
            self.saver.leave_unserved(self.shared.requests.take_asked());
            let is_within_call = self.is_within_call || error.origin() == ErrorOrigin::Hook;
            late_faults.extend(self.announce_failure(error));
            late_faults.extend(self.settle_after_failure());
            late_faults.extend(self.serving("", |trainer| trainer.save_failed(is_within_call)));
        }
        let stop = self.shared.requests.stop();
        let outcome = RunOutcome::of(result, self.outside.interrupted_by, stop);
        let divergence = self.learning.measures.divergence(self.shared);
        let metrics = match outcome {
            RunOutcome::Completed | RunOutcome::Stopped { .. } => {
                let set = (self.sets).measured_set(self.task.parameters(), self.shared);
                let (kept, saved) = self.sets.kept(set, &self.position);
                kept::settle(kept, saved, self.shared)
            }
            RunOutcome::Failed(_) | RunOutcome::Interrupted(_) => FinalMetrics::default(),
        };
        let so_far = self.timing.run_times(&mut self.hooks).to_json();
        let times = ValueContent::Json(so_far.to_string().into());
        self.shared.values.set(RUN_TIMES, Keep::Run, None, times);
        late_faults.extend(self.finish(&outcome));
        self.report(outcome, divergence, metrics, late_faults)
    }

    /// What the run learns with, and what that is given of the rest.
    pub(super) fn learning(&mut self) -> (&mut Learning<'run>, RunContext<'_, 'run>) {
        let run = RunContext {
            task: self.task,
            hooks: &mut self.hooks,
            shared: self.shared,
            position: &mut self.position,
            plan: &self.plan,
            ranks: self.ranks.as_mut(),
            times: &mut self.timing.pass,
        };
        (&mut self.learning, run)
    }

    /// Whether this process writes what the run leaves behind.
    pub(super) fn is_first(&self) -> bool {
        self.ranks.as_ref().is_none_or(Ranks::is_first)
    }

    /// Checks on several ranks that all have the same parameters.
    pub(super) fn expect_same_parameters(&mut self) -> Result<(), RunError> {
        match &mut self.ranks {
            Some(ranks) => {
                ranks.expect_same_parameters(self.task.parameters(), &self.sets, &self.position)
            }
            None => Ok(()),
        }
    }

    /// Calls the hooks of a mount point without a payload.
    #[inline]
    pub(super) fn call_hooks(&mut self, point: Point) -> Result<(), Leave> {
        if self.position.pass.loss_waits {
            self.read_loss_for(point)?;
        }
        (self.hooks.call(point, &self.position, self.shared)).map_err(RunError::Hook)?;
        if self.shared.requests.is_pending() {
            return self.serve_at(point);
        }
        Ok(())
    }

    /// Calls the hooks of a mount point with a payload.
    pub(super) fn call_with(&mut self, point: Point, payload: Payload<'_>) -> Result<(), Leave> {
        if self.position.pass.loss_waits {
            self.read_loss_for(point)?;
        }
        (self
            .hooks
            .call_with(point, payload, &self.position, self.shared))
        .map_err(RunError::Hook)?;
        if self.shared.requests.is_pending() {
            return self.serve_at(point);
        }
        Ok(())
    }

    /// Reads the loss before the hooks of a point are called, if one of them has to find it in its view.
    pub(super) fn read_loss_for(&mut self, point: Point) -> Result<(), RunError> {
        if self.hooks.needs_loss(point, &self.position) {
            self.settle_measures()?;
        }
        Ok(())
    }

    /// Reads the results of all batches.
    pub(super) fn settle_measures(&mut self) -> Result<(), RunError> {
        self.learning
            .measures
            .settle(&mut self.position, self.shared)
    }

    /// Calls `on_exception` for every hook.
    fn announce_failure(&mut self, error: &RunError) -> Vec<HookFault> {
        let message = error.to_string();
        let failure = FailureAbi {
            origin: error.origin() as u32,
            message: TextAbi::new(&message),
            hook: TextAbi::new(error.hook().unwrap_or_default()),
        };
        let payload = Payload::Failure(&failure);
        (self.hooks).call_every_with(Point::OnException, payload, &self.position, self.shared)
    }

    /// Calls `after_run` for every hook.
    fn finish(&mut self, outcome: &RunOutcome) -> Vec<HookFault> {
        let (kind, reason) = outcome.kind_and_reason();
        let ending = OutcomeAbi {
            kind,
            reason: TextAbi::new(&reason),
        };
        self.position.phase = Phase::Train;
        let payload = Payload::Outcome(&ending);
        (self.hooks).call_every_with(Point::AfterRun, payload, &self.position, self.shared)
    }

    fn report(
        mut self,
        outcome: RunOutcome,
        divergence: Option<Divergence>,
        metrics: FinalMetrics,
        late_faults: Vec<HookFault>,
    ) -> (RunReport, Dispatcher) {
        let measured = (self.sets).measured_weights(self.task.parameters(), self.shared);
        // With what hooks have published at `after_run`.
        let shown = kept::shown_metrics(self.shared);
        let times = self.timing.run_times(&mut self.hooks);
        let report = RunReport {
            outcome,
            divergence,
            late_faults,
            metrics: FinalMetrics {
                metrics: shown,
                ..metrics
            },
            profiles: self.timing.profiles,
            times,
            checkpoints: self.saver.checkpoints,
            last_checkpoint: self.saver.last_checkpoint,
            inexact_checkpoint: self.saver.inexact_checkpoint,
            epochs: self.position.epoch,
            iterations: self.position.iteration,
            updates: self.position.update,
            measured,
            learnt: self.task.learnt(),
            history: self.saver.history,
            seconds: self.shared.clock.elapsed_seconds(),
        };
        (report, self.hooks)
    }
}
