//! Activation functions.

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// See [`relu`](crate::relu).
    Relu,
    /// See [`gelu`](crate::gelu).
    Gelu,
    /// See [`gelu_tanh`](crate::gelu_tanh).
    GeluTanh,
    /// See [`quick_gelu`](crate::quick_gelu).
    QuickGelu,
    /// See [`silu`](crate::silu).
    Silu,
}
