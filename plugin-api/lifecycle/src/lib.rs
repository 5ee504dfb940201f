//! The order of everything in a run: mount points, and the work between them.
//!
//! The host and the test kit both run these functions, so a hook that passes its tests meets the same mount points,
//! in the same order and with the same counters, in a training.
//!
//! **Parts.** [`Position`] has the counters and the stage of a run; the view of a hook is built from it.
//! [`RunDriver`] is what a host brings: data, forward and backward pass, updates, checkpoints, and calls of hooks.
//! The functions are generic over it and know no tensors: [`run`] and `training` (whole runs), `iteration` (training
//! batches and updates), [`evaluate`] (validations and tests).
//!
//! **Flow.**
//! - A run calls `before_run`, trains, and tests if configured. Its driver adds what comes before and after:
//!   `on_exception`, `after_run`.
//! - Training calls `before_loop`, restores the checkpoint of a resumed run, validates if configured, and runs
//!   cycles. A cycle is an epoch, a validation if one is due, and `after_cycle`. At the end comes `after_loop`.
//! - An iteration takes a batch and runs forward pass, loss and backward pass; the last batch of an update is followed
//!   by a step of the optimizer.
//!
//! - On several ranks, each processes a block of an update's batches, one batch at a time: a [`Round`]. Their gradients
//!   are summed before `before_update`.
//!
//! **States.** [`TrainingStage`] goes from `Start` to `Epoch`, `Validation`, `Cycle`, and back to `Epoch`.
//! A rollback sets the position from a checkpoint and returns [`Leave::RolledBack`], which ends the loops in progress;
//! training continues with the stage found. [`Consistency`] says how complete the state is within an iteration.

mod batches;
mod driver;
mod evaluation;
mod followed;
mod iteration;
mod leave;
mod position;
mod reopening;
mod training;

pub use batches::{EpochBatches, MicroBatch, Ranked, Round, rounds_of};
pub use driver::{RunDriver, Stopping};
pub use evaluation::{evaluate, validate};
pub use followed::{Followed, OutOfOrder, Place};
pub use leave::Leave;
pub use position::{
    Consistency, EpochStart, EvaluationState, PassCounters, Position, TrainingStage,
};
pub use training::run;

#[cfg(test)]
mod tests;
