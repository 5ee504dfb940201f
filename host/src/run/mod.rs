//! A run: trains a task by a plan, and calls hooks at the mount points.
//!
//! **Parts** ([`Trainer`] owns the run; each file holds a part of its methods or of its state)
//!
//! - `driver`: what the trainer does between mount points. The order, and the `Position` with the counters, are
//!   those of [`sconce_lifecycle`], which the test kit runs too
//! - `trainer`: from the start of a run to its report; `batch`: the work on one batch;
//!   `staging`: batches on the device that computes;
//!   `early_step`: parameters stepped during the backward pass
//! - `modules`, `record`: hooks at the model's modules
//! - `measured`: what a batch adds to the metrics; `late`: losses and metrics that are read from a device later
//! - `plan`, `update`, `losses`, `sets`, `timing`, `saver`, `outside`: the state of the run
//! - `serve`: dispatches the requests of hooks to `save`, `background`, `keep`, `restore`, `swap` and
//!   `renew`, with their types in `manner`, `writing` and `swapped`
//! - `resume`, `resumption`, `restore`, `references`, `epoch_snapshot`: continuing from a checkpoint
//! - `reinstate`: a hook whose instance is replaced; `reload`, `reloads`: by one of a new library
//! - `heed`: requests from outside between iterations: `interrupt` (signals), `remote` (keys), `observer` (a
//!   view)
//! - `ranks`: the state of a run on several ranks; `joint_update`, `joint_evaluation`, `joint_files`: what they do
//!   together; `vote`, `settings`: requests and settings of one rank, for all; `statistics`: batch norms'; `drift`:
//!   whether ranks still have the same parameters; `together`: the end
//! - `finite`, `costs`: warnings and errors for NaN, divergence, and slow or leaking hooks
//! - `timing`, `wall_time`: where the time goes, in passes and outside of them
//! - `report`, `profile`, `failure`: the results; `kept`: the metrics of the weights that are kept
//!
//! **Flow**
//!
//! - [`Trainer::run`] runs the lifecycle, and then calls `after_run`. After an error it first calls
//!   `on_exception` and saves the checkpoint `failed`. Hooks are dropped last.
//! - At a mount point the dispatcher calls the hooks; their requests are served once all of them have run, those
//!   from outside between iterations.
//! - On several ranks every rank runs the same loops. They synchronise before each step (`joint_update`), after the
//!   last iteration of each update, and at the mount points outside of batches (`vote`). A rank that fails tells the
//!   others at their next synchronisation, and all end.
//!
//! **States**: the position's stage, see the lifecycle. A rollback sets it from a checkpoint and returns
//! `Leave::RolledBack`, an interruption `Leave::Interrupted`; both pass through the loops as errors do. A run ends
//! with a [`RunOutcome`]: completed, stopped, interrupted or failed.

mod background;
mod batch;
mod costs;
mod drift;
mod driver;
mod early_step;
mod epoch_snapshot;
mod failure;
mod finite;
mod heed;
mod interrupt;
mod joint_evaluation;
mod joint_files;
mod joint_update;
mod keep;
mod kept;
mod late;
mod losses;
mod manner;
mod measured;
mod modules;
mod observer;
mod outside;
mod plan;
mod profile;
mod ranks;
mod record;
mod references;
mod reinstate;
mod reload;
mod reloads;
mod remote;
mod renew;
mod report;
mod restore;
mod resume;
mod resumption;
mod save;
mod saver;
mod serve;
mod sets;
mod settings;
mod staging;
mod statistics;
mod swap;
mod swapped;
mod tensor_result;
mod timing;
mod together;
mod trainer;
mod update;
mod vote;
mod wall_time;
mod writing;

pub use failure::{ErrorOrigin, RunError};
pub use interrupt::{Interrupt, Meaning, StopSignal};
pub use kept::{FinalMetrics, KeptWeights, LastMetrics};
pub use observer::{Now, Observer};
pub use plan::TrainingPlan;
pub use profile::{HookCopies, HookTiming, Profile};
pub(crate) use reloads::{
    LoadedCode, ReloadCandidate, ReloadOrder, ReloadResult, ReloadService, Reloader, Reloads,
};
pub use remote::{Remote, RemoteRequest};
pub use report::{Divergence, RunOutcome, RunReport};
pub use resumption::Resume;
pub use trainer::Trainer;
pub use wall_time::{EndTimes, HookWork, RunTimes, StartTimes};
