//! A layer that was built, with its output and its cost.

use crate::{Layer, Signal};

/// A built layer with its output.
pub(super) struct Made {
    pub(super) layer: Box<dyn Layer>,
    pub(super) output: Signal,
    /// See [`LayerSummary::flops`].
    pub(super) flops: u64,
}

/// Two operations for each of as many multiply-adds as the product of these sizes.
pub(super) fn flops<const N: usize>(sizes: [usize; N]) -> u64 {
    sizes
        .into_iter()
        .fold(2, |flops, size| flops.saturating_mul(size as u64))
}

/// A layer whose multiply-adds are not counted.
pub(super) fn made(layer: impl Layer + 'static, output: Signal) -> Made {
    Made {
        layer: Box::new(layer),
        output,
        flops: 0,
    }
}

/// A layer that keeps the shape.
pub(super) fn same(layer: impl Layer + 'static, input: &Signal) -> Made {
    made(layer, input.clone())
}
