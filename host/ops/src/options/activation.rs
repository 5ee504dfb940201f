//! Activation functions.

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// See [`relu`](crate::relu).
    Relu,
    /// See [`gelu`](crate::gelu).
    Gelu,
    /// See [`silu`](crate::silu).
    Silu,
}
