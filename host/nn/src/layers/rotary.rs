//! Rotary position embeddings.

use candle_core::{D, DType, Device, Result, Tensor};

use crate::precision::widened;

/// Rotary position embedding (Su et al., 2021): rotates pairs of elements from the two halves of a
/// vector, by angles that grow with the position. candle's `rope` has no gradient.
#[derive(Clone, Debug)]
pub struct Rotary {
    /// Shape (positions, width / 2).
    cosines: Tensor,
    sines: Tensor,
}

impl Rotary {
    /// Creates the tables for vectors of an even `width` and this many positions; `base` is usually 10,000.
    pub fn new(
        positions: usize,
        width: usize,
        base: f64,
        dtype: DType,
        device: &Device,
    ) -> Result<Rotary> {
        if !width.is_multiple_of(2) {
            candle_core::bail!("rotary positions want an even width, found {width}")
        }
        let half = width / 2;
        let angles = (0..positions * half).map(|index| {
            let (position, pair) = (index / half, index % half);
            position as f64 / base.powf(2.0 * pair as f64 / width as f64)
        });
        let angles: Vec<f64> = angles.collect();
        let table = |of: fn(f64) -> f64| {
            let values: Vec<f64> = angles.iter().copied().map(of).collect();
            Tensor::from_vec(values, (positions, half), device)?.to_dtype(dtype)
        };
        Ok(Rotary {
            cosines: table(f64::cos)?,
            sines: table(f64::sin)?,
        })
    }

    /// Maps (…, length, width) to the same shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let &[.., length, width] = x.dims() else {
            candle_core::bail!(
                "rotary positions want (…, length, width), found {:?}",
                x.dims()
            )
        };
        let cosines = self.cosines.narrow(0, 0, length)?;
        let sines = self.sines.narrow(0, 0, length)?;
        let dtype = x.dtype();
        let x = &widened(x)?;
        let first = x.narrow(D::Minus1, 0, width / 2)?;
        let second = x.narrow(D::Minus1, width / 2, width / 2)?;
        let turned_first = (first.broadcast_mul(&cosines)? - second.broadcast_mul(&sines)?)?;
        let turned_second = (second.broadcast_mul(&cosines)? + first.broadcast_mul(&sines)?)?;
        Tensor::cat(&[turned_first, turned_second], D::Minus1)?.to_dtype(dtype)
    }
}
