//! A run: trains a task by a plan, and calls hooks at the mount points.
//!
//! **Parts** ([`Trainer`] owns the run; each file holds a part of its methods or of its state)
//!
//! - `trainer`, `train`, `iteration`, `evaluate`: the loop, from the whole run down to a batch
//! - `modules`, `record`: hooks at the model's modules
//! - `plan`, `position`, `update`, `losses`, `evaluation`, `sets`, `timing`, `saver`, `outside`: the state of
//!   the loop
//! - `serve`: dispatches the requests of hooks to `save`, `background`, `keep`, `restore`, `swap` and
//!   `renew`, with their types in `manner`, `writing`, `swapped` and `exchange`
//! - `resume`, `resumption`, `restore`, `reopen`: continuing from a checkpoint
//! - `heed`: requests from outside between iterations: `interrupt` (signals), `remote` (keys), `observer` (a
//!   view)
//! - `finite`, `costs`: warnings and errors for NaN, divergence, and slow or leaking hooks
//! - `report`, `profile`, `failure`: the results
//!
//! **Flow**
//!
//! - [`Trainer::run`] calls `before_run`, trains, tests, and calls `after_run`. After an error it first calls
//!   `on_exception` and saves the checkpoint `failed`. Hooks are dropped last.
//! - Training calls `before_loop`, restores the checkpoint of a resumed run, validates if configured, and
//!   runs cycles. A cycle is an epoch, a validation if one is due, and `after_cycle`.
//! - An iteration takes a batch and runs forward pass, loss and backward pass; the last batch of an update is
//!   followed by a step of the optimizer.
//! - Requests of hooks are served once all hooks of the mount point have run, those from outside between
//!   iterations.
//!
//! **States**: `position.stage` goes from `Start` to `Epoch`, `Validation`, `Cycle`, and back to `Epoch`. A
//! rollback sets it from a checkpoint and marks the position as jumped, until the loops in progress are left.
//! A run ends with an [`RunOutcome`]: completed, stopped, interrupted or failed.

mod background;
mod costs;
mod evaluate;
mod evaluation;
mod exchange;
mod failure;
mod finite;
mod heed;
mod interrupt;
mod iteration;
mod keep;
mod losses;
mod manner;
mod modules;
mod observer;
mod outside;
mod plan;
mod position;
mod profile;
mod record;
mod remote;
mod renew;
mod reopen;
mod report;
mod restore;
mod resume;
mod resumption;
mod save;
mod saver;
mod serve;
mod sets;
mod swap;
mod swapped;
mod tensor_result;
mod timing;
mod train;
mod trainer;
mod update;
mod writing;

pub use failure::{ErrorOrigin, RunError};
pub use interrupt::{Interrupt, Meaning, StopSignal};
pub use observer::{Now, Observer};
pub use plan::TrainingPlan;
pub use profile::{HookTiming, Profile};
pub use remote::{Remote, RemoteRequest};
pub use report::{Divergence, RunOutcome, RunReport};
pub use resumption::Resume;
pub use trainer::Trainer;
