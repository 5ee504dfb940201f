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
    /// See [`tanh`](crate::tanh).
    Tanh,
    /// See [`sigmoid`](crate::sigmoid).
    Sigmoid,
}

impl Function {
    /// Every one of them.
    pub const ALL: [Function; 7] = [
        Function::Relu,
        Function::Gelu,
        Function::GeluTanh,
        Function::QuickGelu,
        Function::Silu,
        Function::Tanh,
        Function::Sigmoid,
    ];
}
