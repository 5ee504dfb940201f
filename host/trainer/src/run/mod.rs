//! A run: trains a task by a plan, and calls hooks at the mount points.
//!
//! **Parts**: [`Trainer`] owns the run. It consists of the states of its concerns, and each concern's folder has the steps that
//! need several of them.
//!
//! - `driver`: what the trainer does between mount points. The order, and the `Position` with the counters, are
//!   those of [`sconce_lifecycle`], which the test kit runs too. `trainer`: from the start of a run to its report
//! - `iteration`: the work on batches
//! - `checkpoints`: saving, resuming, and requests about saved checkpoints; `weights`: sets of weights, and those kept
//! - `requests`: of hooks, of other ranks and from outside; `outside`: where the latter come from
//! - `ranks`: what several processes share and agree on
//! - `replacement`: hooks that get new instances
//! - `timing`: where the time goes
//! - `plan`, `report`, `failure`: what is to be done, what came of it, and errors; `results`: its `run.json`
//!
//! **Flow**
//!
//! - [`Trainer::run`] runs the lifecycle, and then calls `after_run`. After an error it first calls
//!   `on_exception` and saves the checkpoint `failed`. Hooks are dropped last.
//! - At a mount point the dispatcher calls the hooks; their requests are served once all of them have run, those
//!   from outside between iterations.
//! - On several ranks every rank runs the same loops. They synchronise before each step (`ranks::update`), after the
//!   last iteration of each update, and at the mount points outside of batches (`requests::vote`). A rank that fails reports
//!   it to the others at their next synchronisation, and all end.
//!
//! **States**: the position's stage, see the lifecycle. A rollback sets it from a checkpoint and returns
//! `Leave::RolledBack`, an interruption `Leave::Interrupted`; both pass through the loops as errors do. A run ends
//! with a [`RunOutcome`]: completed, stopped, interrupted or failed.

mod checkpoints;
mod driver;
mod failure;
mod iteration;
mod outside;
mod plan;
mod ranks;
mod replacement;
mod report;
mod requests;
mod results;
mod tensor_result;
mod timing;
mod trainer;
mod weights;

use std::cell::RefCell;

use candle_core::Device;
use sconce_lifecycle::Position;
use sconce_plugin_api::Phase;

pub use checkpoints::resumption::Resume;
use checkpoints::resumption::Resumption;
use checkpoints::saver::Saver;
pub use failure::{ErrorOrigin, RunError};
use iteration::losses::{Deferral, Losses};
use iteration::measured::BatchSums;
use iteration::record::Record;
use iteration::staging::IdleUploaders;
use iteration::update::Update;
pub use outside::interrupt::{Interrupt, Meaning, StopSignal};
pub use outside::observer::{Now, Observer};
pub use outside::remote::{Remote, RemoteRequest};
use outside::sources::Outside;
pub use plan::TrainingPlan;
use ranks::state::Ranks;
pub use replacement::waiting::{
    LoadedCode, ReloadCandidate, ReloadOrder, ReloadResult, ReloadService, Reloader, Reloads,
};
pub use report::{Divergence, RunOutcome, RunReport};
pub use results::write_results;
use timing::passes::Timing;
pub use timing::profile::{HookCopies, HookTiming, Profile};
pub use timing::wall_time::{EndTimes, HookWork, RunTimes, StartTimes};
pub use weights::kept::{FinalMetrics, KeptWeights, LastMetrics};
use weights::sets::Sets;

use crate::bridge::BridgeState;
use crate::data::order::Sampler;
use crate::dispatch::Dispatcher;
use crate::nn::{ModuleInfo, StatisticsLog};
use crate::optim::Optimizer;
use crate::task::Task;

/// Trains a task and calls hooks at the mount points.
pub struct Trainer<'run> {
    task: &'run mut dyn Task,
    optimizer: &'run mut dyn Optimizer,
    hooks: Dispatcher,
    shared: &'run BridgeState<'run>,
    plan: TrainingPlan,
    /// Buffer for the values of the task's metrics.
    values: Vec<f64>,
    /// What the last batch adds to the metrics.
    measured: BatchSums,
    /// Whether losses and metrics stay on a device until somebody reads them.
    deferral: Deferral,
    /// What copies batches to a device, between passes.
    uploaders: IdleUploaders,
    /// Phase whose data a test measures.
    tested: Phase,
    /// What draws the orders of epochs, from the first on.
    sampler: Option<Sampler>,
    /// Counters and stage, which hooks see.
    position: Position,
    update: Update,
    losses: Losses,
    sets: Sets,
    /// The task's modules.
    modules: Vec<ModuleInfo>,
    /// Tensors of the modules, to be reported after the backward pass.
    records: Vec<Record>,
    saver: Saver,
    resumption: Resumption,
    outside: Outside<'run>,
    timing: Timing,
    /// Other processes that train with this one.
    ranks: Option<Ranks>,
    /// What the batch norms of the last training pass have recorded and not merged yet.
    statistics: RefCell<StatisticsLog>,
}

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
        shared.has_momentum.set(optimizer.has_momentum());
        let modules = task.modules();
        let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
        hooks.set_modules(&names);
        shared.tensors.set_parameters(task.parameters());
        shared.gpu.set(&device_of(task));
        let values = vec![0.0; task.metrics().len()];
        Trainer {
            task,
            optimizer,
            hooks,
            shared,
            position: Position::start(plan.epochs),
            plan,
            values,
            measured: BatchSums::default(),
            deferral: Deferral::default(),
            uploaders: IdleUploaders::default(),
            update: Update::default(),
            losses: Losses::default(),
            sets: Sets::default(),
            modules,
            records: Vec::new(),
            saver: Saver::nowhere(),
            resumption: Resumption::default(),
            outside: Outside::default(),
            timing: Timing::new(),
            ranks: None,
            sampler: None,
            tested: Phase::Test,
            statistics: RefCell::default(),
        }
    }
}

/// The device of a task's parameters.
fn device_of(task: &dyn Task) -> Device {
    let first = task.parameters().iter().next();
    first.map_or(Device::Cpu, |parameter| parameter.tensor().device().clone())
}
