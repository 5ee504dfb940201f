//! Candle's result type, whose name collides with the standard one.

pub(super) type TensorResult<T> = candle_core::Result<T>;
