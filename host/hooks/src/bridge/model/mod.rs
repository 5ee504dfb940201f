//! What a run's model does for hooks.
//!
//! **Parts.** `forward` runs it, with other parameters as well; `text` has it write; `given_loss` has the loss that a hook gives for its outputs.

mod forward;
mod given_loss;
mod text;

use std::cell::OnceCell;
use std::rc::Rc;

pub use forward::{AskedPass, ForwardModel, SetTensor, exchange, tensors_of_set};
pub use given_loss::GivenLosses;
pub(super) use given_loss::like_outputs;
pub use text::WritesText;

/// What a run's model does for hooks, as far as the loop can; set before hooks are called.
#[derive(Default)]
pub struct ModelForHooks {
    /// What writes text with it.
    pub(super) text: OnceCell<Box<dyn WritesText>>,
    /// What runs it.
    pub(super) forward: OnceCell<Rc<dyn ForwardModel>>,
    /// The batch's loss that a hook has given.
    pub given_losses: GivenLosses,
}
