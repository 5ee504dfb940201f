//! `sconce.requests/1`: what a hook may ask the run to do.

use std::ffi::c_void;

use super::Extension;
use crate::abi::{ErrorAbi, TextAbi};

/// The table of `sconce.requests/1`. Frozen; the set of requests is open.
#[repr(C)]
#[derive(Debug)]
pub struct RequestsTable {
    /// Asks for the [`Request`] of this number, with its number and text arguments.
    pub request: unsafe extern "C" fn(
        context: *const c_void,
        request: u32,
        number: f64,
        text: TextAbi,
        error: *mut ErrorAbi,
    ) -> u32,
}

// SAFETY: this is the table of that identifier.
unsafe impl Extension for RequestsTable {
    const ID: &'static str = "sconce.requests/1";
}

impl RequestsTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}

/// The requests that this version of the API knows, with their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u32)]
pub enum Request {
    /// Stop after this iteration; the text is the reason.
    Stop = 1,
    /// Stop after this epoch and its validation; the text is the reason.
    StopAfterEpoch = 2,
    /// Leave this batch out.
    SkipBatch = 3,
    /// Leave this update out.
    SkipUpdate = 4,
    /// Set the learning rate to the number: of the group that the text names, or of all.
    SetLearningRate = 5,
    /// Multiply this batch's loss by the number before its gradients are computed.
    ScaleLoss = 6,
    /// Save a checkpoint; the text is its tag. The number is 0, or 1 for one of the parameters alone.
    SaveCheckpoint = 7,
    /// Validate, in the middle of the training.
    Validate = 8,
    /// Go back to a checkpoint; the text is its tag.
    RollBack = 9,
    /// Put a published set of tensors in the parameters' place; the text is its name.
    SwapParameters = 10,
    /// Put the parameters back into their place.
    SwapBack = 11,
    /// Take the parameters, and nothing else, from a checkpoint; the text is `TAG`, or `TAG/SET` for
    /// a published set in the place of the parameters.
    LoadParameters = 12,
    /// Delete a checkpoint; the text is its tag.
    DeleteCheckpoint = 13,
    /// Give a saved checkpoint a second tag; the text is `FROM/TO`.
    CopyCheckpoint = 14,
    /// Write a checkpoint's parameters into a file of their own, named by its hash; the text is
    /// `TAG/NAME`, or `TAG/NAME/SET` for a published set in the place of the parameters.
    PublishWeights = 15,
    /// Save a checkpoint that is written while the training goes on; text and number as those of
    /// `SaveCheckpoint`.
    SaveInBackground = 16,
    /// At a hook's creation: never call it at the mount point of this number.
    LeaveOutPoint = 17,
    /// Call this hook at modules from now on (the number is 1), or don't (0).
    ListenAtModules = 18,
    /// Train the parameter of the text's name at this share of its group's learning rate; 0 freezes it.
    /// Of a buffer: 0 freezes it, 1 lets it go.
    Freeze = 19,
    /// Add the gradients of so many batches up for an update, from the next one on.
    SetAccumulation = 20,
    /// Set the momentum (the first beta, where the optimizer calls it so) to the number: of the group
    /// that the text names, or of all.
    SetMomentum = 21,
    /// Compute the statistics of the batch norms anew from so many training samples; 0: from all.
    RenewStatistics = 22,
}

impl Request {
    /// All requests of this version of the API.
    pub const ALL: [Request; 22] = [
        Request::Stop,
        Request::StopAfterEpoch,
        Request::SkipBatch,
        Request::SkipUpdate,
        Request::SetLearningRate,
        Request::ScaleLoss,
        Request::SaveCheckpoint,
        Request::Validate,
        Request::RollBack,
        Request::SwapParameters,
        Request::SwapBack,
        Request::LoadParameters,
        Request::DeleteCheckpoint,
        Request::CopyCheckpoint,
        Request::PublishWeights,
        Request::SaveInBackground,
        Request::LeaveOutPoint,
        Request::ListenAtModules,
        Request::Freeze,
        Request::SetAccumulation,
        Request::SetMomentum,
        Request::RenewStatistics,
    ];

    /// The request with this number.
    pub fn from_number(number: u32) -> Option<Request> {
        Request::ALL
            .into_iter()
            .find(|request| *request as u32 == number)
    }

    /// How messages call it.
    pub const fn name(self) -> &'static str {
        match self {
            Request::Stop => "stop",
            Request::StopAfterEpoch => "stop_after_epoch",
            Request::SkipBatch => "skip_batch",
            Request::SkipUpdate => "skip_update",
            Request::SetLearningRate => "set_learning_rate",
            Request::ScaleLoss => "scale_loss",
            Request::SaveCheckpoint => "save_checkpoint",
            Request::Validate => "validate",
            Request::RollBack => "roll_back",
            Request::SwapParameters => "swap_parameters",
            Request::SwapBack => "swap_back",
            Request::LoadParameters => "load_parameters",
            Request::DeleteCheckpoint => "delete_checkpoint",
            Request::CopyCheckpoint => "copy_checkpoint",
            Request::PublishWeights => "publish_weights",
            Request::SaveInBackground => "save_in_background",
            Request::LeaveOutPoint => "leave_out_point",
            Request::ListenAtModules => "listen_at_modules",
            Request::Freeze => "freeze",
            Request::SetAccumulation => "set_accumulation",
            Request::SetMomentum => "set_momentum",
            Request::RenewStatistics => "renew_statistics",
        }
    }
}
