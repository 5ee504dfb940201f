//! `sconce.requests/1`: requests that a hook may make to the run.
//!
//! **Parts.** `asked`: what a request's number and text mean; `text`: those of text that the model writes. `legal`: at which mount points
//! which are legal, and what may be changed there. `readable`: what a hook may read of a loop, beside what it asks for.

mod asked;
mod legal;
mod readable;
mod text;

pub use asked::{Asked, check_ratio, serving_order};
pub use legal::{
    BEST_CHECKPOINT, KEPT_WEIGHTS, LATEST, RUN_TIMES, check_name, check_path, check_tag,
};
pub use readable::Readable;
pub use text::{GENERATED_TEXT, TextRequest, WrittenText};

use super::extension;
use crate::abi::Refusal;

/// Requests that a hook may make to the run; the set of requests is open.
#[extension("sconce.requests/1")]
pub trait Requests {
    /// Makes the [`Request`] with this number, with a numeric and a text argument.
    #[changes]
    fn request(&self, request: u32, number: f64, text: &str) -> Result<(), Refusal>;
}

/// Requests that this version of the API knows, with their numbers.
///
/// Each documents the meaning of its two arguments, "the number" and "the text". Where each is legal:
/// [`Request::is_legal_at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u32)]
pub enum Request {
    /// Stop after this iteration; the text is the reason.
    Stop = 1,
    /// Stop after this epoch and its validation; the text is the reason.
    StopAfterEpoch = 2,
    /// Skip this batch.
    SkipBatch = 3,
    /// Skip this update.
    SkipUpdate = 4,
    /// Set the learning rate to the number: of the group named by the text, or of all if it is empty.
    SetLearningRate = 5,
    /// Multiply this batch's loss by the number before the backward pass.
    ScaleLoss = 6,
    /// Save a checkpoint; the text is its tag. The number is 0, or 1 to save the parameters only.
    SaveCheckpoint = 7,
    /// Run a validation during training.
    Validate = 8,
    /// Roll back to a checkpoint; the text is its tag.
    RollBack = 9,
    /// Replace the parameters by a published set of tensors; the text is its name.
    SwapParameters = 10,
    /// Restore the real parameters after a swap.
    SwapBack = 11,
    /// Load only the parameters from a checkpoint; the text is `TAG` or `TAG/SET`.
    ///
    /// With `SET`, a published set is used instead of the checkpoint's parameters.
    LoadParameters = 12,
    /// Delete a checkpoint; the text is its tag.
    DeleteCheckpoint = 13,
    /// Give a saved checkpoint a second tag; the text is `FROM/TO`.
    CopyCheckpoint = 14,
    /// Export a checkpoint's parameters to a file; the text is `TAG/NAME` or `TAG/NAME/SET`.
    ///
    /// The file's name ends in its hash. With `SET`, a published set is used instead of the checkpoint's
    /// parameters.
    PublishWeights = 15,
    /// Save a checkpoint in the background; text and number as for `SaveCheckpoint`.
    SaveInBackground = 16,
    /// At a hook's creation: never call it at the mount point with this number.
    LeaveOutPoint = 17,
    /// From now on, call this hook at the module points (the number is 1), or don't (0).
    ListenAtModules = 18,
    /// Train the parameter named by the text at its group's learning rate times the number; 0 freezes it. For
    /// a buffer: 0 freezes it, 1 unfreezes it.
    Freeze = 19,
    /// Accumulate the gradients of this number of batches per update, from the next update on.
    SetAccumulation = 20,
    /// Set the momentum to the number: of the group named by the text, or of all if it is empty.
    ///
    /// For Adam, AdamW and Lion this is beta1.
    SetMomentum = 21,
    /// Recompute the batch norms' running statistics from this number of training samples; 0: from all.
    RenewStatistics = 22,
    /// At a hook's creation: it publishes the metric named by the text, or the family of metrics, as in `class/*`.
    DeclareMetric = 23,
    /// Set the weight decay to the number: of the group named by the text, or of all if it is empty.
    SetWeightDecay = 24,
    /// At a hook's creation: with its configuration it makes no requests but those named by the text, separated by commas.
    DeclareAsks = 25,
    /// At a hook's creation: with its configuration it reads no more of the loop than what the text names ([`Readable`](super::Readable)),
    /// separated by commas.
    DeclareReads = 26,
    /// Have the model write text, with the parameters as they are; the text is a [`TextRequest`](super::TextRequest) as JSON.
    ///
    /// It is done before the call returns. What was written is published as
    /// [`GENERATED_TEXT`](super::GENERATED_TEXT), a list of [`WrittenText`](super::WrittenText) with one for each prompt.
    Generate = 27,
    /// At a hook's creation: of all modules, call it at those alone whose names the text has, separated by commas.
    SelectModules = 28,
}

impl Request {
    /// All requests that this version of the API knows, in the order of their numbers.
    pub const ALL: [Request; 28] = [
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
        Request::DeclareMetric,
        Request::SetWeightDecay,
        Request::DeclareAsks,
        Request::DeclareReads,
        Request::Generate,
        Request::SelectModules,
    ];

    /// Whether it is legal at a hook's creation, and nowhere else: it says something about the hook, and asks nothing of
    /// the run.
    pub const fn is_of_creation(self) -> bool {
        matches!(
            self,
            Request::LeaveOutPoint
                | Request::DeclareMetric
                | Request::DeclareAsks
                | Request::DeclareReads
                | Request::SelectModules
        )
    }

    /// Whether the key `asks` of a hook's metadata lists it: whether some loop may be unable to serve it.
    ///
    /// What is said at creation concerns the hook alone. Swapping back is possible where swapping is. Whether the hook is
    /// called at modules is its dispatcher's affair, and its mount points say that it wants to be.
    pub const fn is_listed(self) -> bool {
        !self.is_of_creation() && !matches!(self, Request::SwapBack | Request::ListenAtModules)
    }

    /// The request with this name; `None` if this version of the API doesn't know it.
    pub fn from_name(name: &str) -> Option<Request> {
        Request::ALL
            .into_iter()
            .find(|request| request.name() == name)
    }

    /// The request with this number; `None` if this version of the API doesn't know it.
    pub fn from_number(number: u32) -> Option<Request> {
        Request::ALL
            .into_iter()
            .find(|request| *request as u32 == number)
    }

    /// The name in metadata, in `#[hook(asks = […])]` and in messages.
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
            Request::DeclareMetric => "declare_metric",
            Request::SetWeightDecay => "set_weight_decay",
            Request::DeclareAsks => "declare_asks",
            Request::DeclareReads => "declare_reads",
            Request::Generate => "generate",
            Request::SelectModules => "select_modules",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Request;

    #[test]
    fn names_lead_back_to_their_requests() {
        for request in Request::ALL {
            assert_eq!(Request::from_name(request.name()), Some(request));
            assert_eq!(Request::from_number(request as u32), Some(request));
        }
        assert_eq!(Request::from_name("make_tea"), None);
    }
}
