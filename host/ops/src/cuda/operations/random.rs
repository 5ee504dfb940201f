//! Random factors by `host/ops/cuda/random.cu`, with the bits of [`crate::random`].

use candle_core::{DType, Device, Result, Tensor};

use crate::cuda::compilation::sources::Family;
use crate::cuda::launch::{Argument, Grid, device_of, launch, uninitialised};

/// `scale` where the stream's next [`unit`](crate::random::Stream::unit) is at least `share`, else 0, for each element of `like`, as
/// `f32` on its device; `None` if that is not a GPU. The stream is one that nothing was drawn from, by its key.
pub(crate) fn dropout_factors(
    like: &Tensor,
    key: [u8; 32],
    share: f64,
    scale: f32,
) -> Result<Option<Tensor>> {
    let (count, device) = (like.elem_count(), like.device());
    if !matches!(device, Device::Cuda(_)) || count == 0 || crate::choice::is_requested() {
        return Ok(None);
    }
    // As the stream's generator reads it: words, the lowest byte first.
    let words = key.as_chunks::<4>().0;
    let words: Vec<u32> = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
    let key = Tensor::from_vec(words, 8, device)?;
    let device = device_of(&key)?;
    let factors = uninitialised(&device, like.shape(), DType::F32)?;
    launch(
        &device,
        (Family::Random, "dropout_factors"),
        Grid::threads(count.div_ceil(8))?,
        &[
            Argument::Tensor(&factors),
            Argument::U64(count as u64),
            Argument::Tensor(&key),
            Argument::F64(share),
            Argument::F32(scale),
        ],
    )?;
    Ok(Some(factors))
}
