//! The two kinds of tensors that a model registers.

/// Whether a registered tensor is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Learned from gradients.
    Parameter,
    /// Part of the model's state that is not learned from gradients.
    Buffer,
}
