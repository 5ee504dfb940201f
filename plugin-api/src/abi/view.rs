//! The task view: plain data that a plugin reads directly.

use std::ffi::c_void;
use std::ptr;

use abi_stable::StableAbi;

use super::TextAbi;

/// State of the running task at a mount point; borrowed for the call. Frozen.
///
/// Epoch, iteration and update count what is finished, from 0.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct ViewAbi {
    /// Opaque argument for the host's functions.
    pub context: *const c_void,
    /// Payload of the mount point (its type is frozen per point), or null.
    pub payload: *const c_void,
    /// Name of the phase's data set.
    pub stream: TextAbi,
    /// Finished training epochs.
    pub epoch: u64,
    /// Training epochs that the run was configured for.
    pub epochs: u64,
    /// Finished training batches (micro-batches under gradient accumulation).
    pub iteration: u64,
    /// Finished optimizer steps.
    pub update: u64,
    /// Finished batches in this pass over the phase's data.
    pub batch: u64,
    /// Batches in this pass over the phase's data; 0 outside a pass.
    pub batches: u64,
    /// Processed training samples.
    pub samples: u64,
    /// Samples in the current batch; 0 outside a batch.
    pub batch_size: u64,
    /// Number of earlier validations in this epoch.
    pub ordinal: u64,
    /// Loss of the current batch; between batches, that of the last one. Valid with [`ViewAbi::HAS_LOSS`].
    pub loss: f64,
    /// The optimizer's learning rate.
    pub learning_rate: f64,
    /// Bit set of the constants below, such as [`ViewAbi::HAS_LOSS`]; unknown bits are ignored.
    pub flags: u64,
    /// The mount point's number.
    pub point: u32,
    /// The phase's number.
    pub phase: u32,
}

impl ViewAbi {
    /// The view before the run has begun.
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

    /// Flag: `loss` holds a value.
    pub const HAS_LOSS: u64 = 1;
    /// Flag: this validation comes before the first training epoch.
    pub const INITIAL: u64 = 2;
    /// Flag: the optimizer steps at the end of this batch.
    pub const UPDATES: u64 = 4;
    /// Flag: there is a loss, but `loss` does not hold it: `sconce.loss/1` gives it, and waits for the device that
    /// computes it. Only hooks that have queried that extension ever see this.
    pub const LOSS_WAITS: u64 = 8;
}
