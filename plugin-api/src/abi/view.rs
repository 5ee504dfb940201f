//! The task view: plain data that a plugin reads directly.

use std::ffi::c_void;
use std::ptr;

use abi_stable::StableAbi;

use super::TextAbi;

/// The running task at one moment; borrowed for the call. Frozen.
///
/// Epoch, iteration and update count what is finished, from 0.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct ViewAbi {
    /// Goes into the host's functions.
    pub context: *const c_void,
    /// What the mount point brings beside this (its type is frozen per point), or null.
    pub payload: *const c_void,
    /// The name of the phase's data set.
    pub stream: TextAbi,
    /// Training epochs finished.
    pub epoch: u64,
    /// Training epochs asked for.
    pub epochs: u64,
    /// Training batches finished (micro-batches under accumulation).
    pub iteration: u64,
    /// Optimizer steps finished.
    pub update: u64,
    /// Batches finished in this pass over the phase's data.
    pub batch: u64,
    /// Batches in this pass over the phase's data; 0 outside one.
    pub batches: u64,
    /// Training samples finished.
    pub samples: u64,
    /// Samples in the current batch; 0 outside one.
    pub batch_size: u64,
    /// How many validations this epoch has had before.
    pub ordinal: u64,
    /// The loss of the current batch, the last one between batches. See [`ViewAbi::HAS_LOSS`].
    pub loss: f64,
    /// The optimizer's learning rate.
    pub learning_rate: f64,
    /// [`ViewAbi::HAS_LOSS`] and so on; unknown bits are passed over.
    pub flags: u64,
    /// The mount point's number.
    pub point: u32,
    /// The phase's number.
    pub phase: u32,
}

impl ViewAbi {
    /// The view before anything has happened.
    pub const EMPTY: ViewAbi = ViewAbi {
        context: ptr::null(),
        payload: ptr::null(),
        stream: TextAbi::EMPTY,
        epoch: 0,
        epochs: 0,
        iteration: 0,
        update: 0,
        batch: 0,
        batches: 0,
        samples: 0,
        batch_size: 0,
        ordinal: 0,
        loss: f64::NAN,
        learning_rate: 0.0,
        flags: 0,
        point: 0,
        phase: 0,
    };

    /// In `flags`: `loss` holds a value.
    pub const HAS_LOSS: u64 = 1;
    /// In `flags`: this validation comes before the first training epoch.
    pub const INITIAL: u64 = 2;
    /// In `flags`: the optimizer steps at the end of this batch.
    pub const UPDATES: u64 = 4;
}
