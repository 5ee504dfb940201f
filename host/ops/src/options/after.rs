//! What follows a convolution.

/// Operations after a convolution, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct After {
    /// max(y, 0), with derivative 0 at 0.
    pub relu: bool,
    /// Max pooling of adjacent 2 × 2 squares; a last row or column that is in none is left out.
    pub pool: bool,
}
