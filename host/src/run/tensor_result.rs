//! Results of candle, whose name collides with the standard one.

pub(super) type TensorResult<T> = candle_core::Result<T>;
