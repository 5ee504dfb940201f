//! A run: trains a task by a plan, and calls hooks at the mount points.
//!
//! **Parts**: [`Trainer`] owns the run. It consists of the structs of its concerns, which do their work themselves and are given
//! what they need of others. What may call hooks, and so end in anything that hooks request, is the trainer's own: `trainer`,
//! `driver`, `checkpoints::{save, restore}` and `serve`.
//!
//! - `driver`: what the trainer does between mount points. The order, and the `Position` with the counters, are
//!   those of [`sconce_lifecycle`], which the test kit runs too. `trainer`: from the start of a run to its report
//! - `iteration`: the work on batches: `Feed`, `HookPasses`, which hooks ask for, and `Learning`, which is `Forward`, `Measures`, `Update` and `Stepper`
//! - `checkpoints`: saving, resuming, and requests about saved checkpoints (`Saver`); `weights`: sets of weights, and those kept
//!   (`Sets`)
//! - `serve`: requests of hooks, of other ranks and from outside; `outside`: where the latter come from, and who observes (`Outside`)
//! - `sums`: what batches add up to
//! - `ranks`: what several processes share and agree on (`Ranks`)
//! - `replacement`: hooks that get new instances (`Recreation`)
//! - `timing`: where the time goes
//! - `plan`, `failure`, `outcome`: what is to be done, errors that end it, and what came of it, with its `run.json`
//!
//! **Flow**
//!
//! - [`Trainer::run`] runs the lifecycle, and then calls `after_run`. After an error it first calls
//!   `on_exception` and saves the checkpoint `failed`. Hooks are dropped last.
//! - At a mount point the dispatcher calls the hooks; their requests are served once all of them have run, those
//!   from outside between iterations.
//! - On several ranks every rank runs the same loops. They synchronise before each step (`ranks::update`), after the
//!   last iteration of each update, and at the mount points outside of batches (`ranks::vote`). A rank that fails reports
//!   it to the others at their next synchronisation, and all end.
//!
//! **States**: the position's stage, see the lifecycle. A rollback sets it from a checkpoint and returns
//! `Leave::RolledBack`, an interruption `Leave::Interrupted`; both pass through the loops as errors do. A run ends
//! with a [`RunOutcome`]: completed, stopped, interrupted or failed.

mod checkpoints;
mod driver;
mod failure;
mod iteration;
mod outcome;
mod outside;
mod plan;
mod ranks;
mod replacement;
mod serve;
mod sums;
mod timing;
mod trainer;
mod weights;

use std::rc::Rc;

use candle_core::Device;
use sconce_lifecycle::Position;
use sconce_plugin_api::Phase;

pub use checkpoints::resumption::Resume;
use checkpoints::resumption::Resumption;
use checkpoints::saver::Saver;
pub use failure::{ErrorOrigin, RunError};
use iteration::feed::Feed;
use iteration::hook_passes::HookPasses;
use iteration::learning::Learning;
pub use outcome::report::{Divergence, RunOutcome, RunReport};
pub use outcome::results::write_results;
pub use outside::interrupt::{Interrupt, Meaning, StopSignal};
pub use outside::observer::{Now, Observer};
pub use outside::reloads::{
    LoadedCode, ReloadCandidate, ReloadOrder, ReloadResult, ReloadService, Reloader, Reloads,
};
pub use outside::remote::{Remote, RemoteRequest};
use outside::sources::Outside;
pub use plan::TrainingPlan;
use ranks::state::Ranks;
use timing::passes::Timing;
pub use timing::profile::{HookCopies, HookTiming, Profile};
pub use timing::wall_time::{EndTimes, HookWork, RunTimes, StartTimes};
pub use weights::kept::{FinalMetrics, KeptWeights, LastMetrics};
use weights::sets::Sets;

use crate::bridge::BridgeState;
use crate::dispatch::Dispatcher;
use crate::task::Task;

/// Trains a task and calls hooks at the mount points.
pub struct Trainer<'run> {
    task: &'run mut dyn Task,
    hooks: Dispatcher,
    shared: &'run BridgeState<'run>,
    plan: TrainingPlan,
    /// Counters and stage, which hooks see.
    position: Position,
    feed: Feed,
    /// Passes that hooks ask for.
    hook_passes: Rc<HookPasses>,
    learning: Learning<'run>,
    /// Phase whose data a test measures.
    tested: Phase,
    sets: Sets,
    saver: Saver,
    resumption: Resumption,
    outside: Outside<'run>,
    timing: Timing,
    /// Other processes that train with this one.
    ranks: Option<Ranks>,
    /// Whether an error has left a mount point before all that its hooks had requested was served.
    is_within_call: bool,
}

/// The device of a task's parameters.
fn device_of(task: &dyn Task) -> Device {
    let first = task.parameters().iter().next();
    first.map_or(Device::Cpu, |parameter| parameter.tensor().device().clone())
}
