//! A run, assembled in steps that can only be taken in order: checked, prepared, ready.

use std::path::Path;

use sconce_plugin_api::Phase;

use super::build::check_sampling;
use super::consistency::{advice, check_given_loss};
use super::{
    Checked, HookPlan, InitialWeights, ModelUse, OpenReferences, StartFailure, TaskBuilder,
    check_memory, check_references, create_hooks, initial_weights, optimizer, plan, rehearse, task,
};
use crate::bridge::BridgeState;
use crate::clock::{self, Lap};
use crate::data::DataFile;
use crate::diagnostic::Diagnostic;
use crate::dispatch::{Dispatcher, LoadedHook};
use crate::generate::HookText;
use crate::manifest::{Manifest, TaskSource};
use crate::optim::Optimizer;
use crate::run::{Resume, RunReport, StartTimes, Trainer, TrainingPlan};
use crate::task::Task;
use crate::team::meeting;

/// Origin of the parameters' first values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstWeights {
    /// The manifest's `weights`, or the initialisation.
    Manifest,
    /// A checkpoint, which is restored later.
    Checkpoint,
}

/// A checked manifest with its task and optimizer; everything but the hooks has been created.
pub struct Prepared {
    /// The manifest.
    pub manifest: Manifest,
    /// The numbers that define the training.
    pub plan: TrainingPlan,
    /// What is trained.
    pub task: Box<dyn Task>,
    /// Files that its data were read from.
    pub files: Vec<DataFile>,
    /// What became of the manifest's initial weights, if they were set.
    pub weights: Option<InitialWeights>,
    /// Warnings about settings without effect.
    pub warnings: Vec<Diagnostic>,
    optimizer: Box<dyn Optimizer>,
    hooks: Vec<HookPlan>,
    /// The references to metrics that wait for the hooks' creation.
    references: OpenReferences,
    /// The plan shown to hooks, as the JSON of a [`Plan`](sconce_plugin_api::Plan).
    expected_plan: String,
    /// What the steps until now have taken.
    times: StartTimes,
}

impl Checked {
    /// Builds task and optimizer, and checks them against the hooks.
    ///
    /// # Errors
    ///
    /// If something can't be built, or a hook refers to something that is not there.
    pub fn prepare(
        self,
        tasks: &dyn TaskBuilder,
        weights: FirstWeights,
    ) -> Result<Prepared, StartFailure> {
        let mut lap = Lap::begin();
        let plan = self.plan();
        let Checked {
            manifest,
            hooks,
            data,
            mut times,
            ..
        } = self;
        let scarce = match tasks.source() {
            TaskSource::Manifest => check_memory(&manifest, data.as_ref(), ModelUse::Training)?,
            TaskSource::Program => None,
        };
        let of_manifest = data.as_ref().map(|data| data.files.clone());
        let task = task(tasks, &manifest, data)?;
        let mut files = of_manifest.unwrap_or_default();
        files.extend(task.files());
        let weights = match weights {
            // Of a run with adapters, a checkpoint has what is not of the base.
            FirstWeights::Checkpoint if manifest.adapt.is_none() => None,
            _ => initial_weights(&manifest, task.as_ref())?,
        };
        check_sampling(&manifest, task.as_ref())?;
        check_given_loss(&manifest, task.as_ref(), &hooks)?;
        let optimizer = optimizer(&manifest, task.parameters())?;
        let references = check_references(&hooks, task.as_ref(), &manifest)?;
        let mut warnings = advice(&manifest, &plan, &hooks, task.as_ref(), optimizer.as_ref());
        warnings.extend(scarce);
        times.model = lap.end();
        Ok(Prepared {
            expected_plan: plan::expected(&plan, &hooks, task.as_ref(), optimizer.as_ref()),
            warnings,
            weights,
            manifest,
            plan,
            task,
            files,
            optimizer,
            hooks,
            references,
            times,
        })
    }
}

impl Prepared {
    /// The hooks to be created, in the manifest's order.
    pub fn hooks(&self) -> &[HookPlan] {
        &self.hooks
    }

    /// Warnings about initial weights.
    pub fn weights_warnings(&self) -> Vec<Diagnostic> {
        let warnings = self.weights.iter();
        warnings.filter_map(|set| set.warning.clone()).collect()
    }

    /// Creates the hooks in a child process, as a test.
    ///
    /// # Errors
    ///
    /// If a hook can't be created, or one refers to a metric that is not published.
    pub fn rehearse(&self) -> Result<Vec<Diagnostic>, StartFailure> {
        let rehearsed = rehearse(&self.hooks, &self.manifest, &self.expected_plan)?;
        self.references.check(rehearsed.declared, &self.manifest)?;
        Ok(rehearsed.warnings)
    }

    /// Shows the run's plan to its hooks.
    pub fn show_plan(&self, shared: &BridgeState<'_>) {
        let batches = self.manifest.distributed.batches;
        let ranks = shared.ranks().size();
        shared.set_plan(plan::on_ranks(&self.expected_plan, ranks, batches));
    }

    /// Creates the hooks, after `first` in the order of the manifest, for a run in `directory`. A run that resumes
    /// then needs [`Ready::resuming`] too.
    ///
    /// # Errors
    ///
    /// If a hook can't be created, or one refers to a metric that is not published.
    pub fn ready<'run>(
        &'run mut self,
        directory: &Path,
        shared: &'run BridgeState<'run>,
        first: Vec<LoadedHook>,
        resume: Option<&Resume>,
    ) -> Result<Ready<'run>, StartFailure> {
        if let Some(resume) = resume {
            shared.resume(resume.checkpoint.hooks.iter().map(|hook| hook.name.clone()));
        }
        shared.set_text(HookText::of(self.task.as_ref()));
        let mut hooks = first;
        let plans = std::mem::take(&mut self.hooks);
        let mut lap = Lap::begin();
        let run = self.manifest.run_setup(directory);
        let created = create_hooks(plans, &self.manifest.hook_list(), &run, shared);
        if created
            .as_ref()
            .is_err_and(|unusable| unusable.has_accident)
        {
            meeting::note_accident();
        }
        hooks.extend(created?);
        // Other ranks have some of the hooks only.
        if shared.ranks().rank() == 0 {
            let declared = shared.requests.take_declared();
            self.references.check(declared, &self.manifest)?;
        }
        self.times.hooks = lap.end();
        let trainer = Trainer::new(
            self.task.as_mut(),
            self.optimizer.as_mut(),
            Dispatcher::new(hooks),
            shared,
            self.plan.clone(),
        )
        .in_directory(&self.manifest.name, directory)
        .with_data_files(self.files.clone())
        .with_hook_time_limit(self.manifest.limits.hook_share)
        .started(clock::process_start(), self.times);
        Ok(Ready { trainer })
    }
}

/// A run whose hooks have been created.
pub struct Ready<'run> {
    trainer: Trainer<'run>,
}

impl<'run> Ready<'run> {
    /// Changes the trainer's options.
    #[must_use]
    pub fn with(self, options: impl FnOnce(Trainer<'run>) -> Trainer<'run>) -> Ready<'run> {
        Ready {
            trainer: options(self.trainer),
        }
    }

    /// Makes the run resume from a checkpoint.
    #[must_use]
    pub fn resuming(self, resume: Option<Resume>) -> Ready<'run> {
        match resume {
            Some(resume) => self.with(|trainer| trainer.resuming(resume)),
            None => self,
        }
    }

    /// The hooks and the order of their calls.
    pub fn hooks(&self) -> &Dispatcher {
        self.trainer.hooks()
    }

    /// Runs to the end.
    pub fn run(self) -> RunReport {
        self.trainer.run()
    }

    /// As [`Trainer::run_and_keep_hooks`].
    pub fn run_and_keep_hooks(self) -> (RunReport, Dispatcher) {
        self.trainer.run_and_keep_hooks()
    }

    /// Evaluates the data of a phase without training.
    pub fn evaluate(self, phase: Phase) -> RunReport {
        self.trainer.evaluate_only(phase)
    }
}
