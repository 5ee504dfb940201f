//! Deterministic random values for tests.

use candle_core::{Result, Shape, Tensor};

/// Standard normal values.
pub(crate) fn normal_numbers(seed: u64, shape: impl Into<Shape>) -> Result<Tensor> {
    let shape = shape.into();
    let mut stream = crate::random::stream(seed, "tests of operations", 0, 0);
    let numbers = (0..shape.elem_count()).map(|_| stream.normal() as f32);
    Tensor::from_vec(
        numbers.collect::<Vec<_>>(),
        shape,
        &sconce_ops::device::for_tests(),
    )
}
