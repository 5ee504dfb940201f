//! What a run's model does for hooks.
//!
//! **Parts.** `forward` runs it, with other parameters as well; `text` has it write; `given_loss` has the loss that a hook gives for its outputs.

mod forward;
mod given_loss;
mod text;

pub use forward::{AskedPass, ForwardModel, SetTensor, exchange, tensors_of_set};
pub use given_loss::GivenLosses;
pub(super) use given_loss::like_outputs;
pub use text::WritesText;
