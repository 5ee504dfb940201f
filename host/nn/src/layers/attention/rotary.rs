//! Rotary position embeddings.

use candle_core::{Result, Tensor, bail};

use crate::ops::{self, RotaryTable, Rotation, TokenPositions};

/// Rotary position embedding (Su et al., 2021): turns pairs of elements from the two halves of a vector, by angles that grow with the
/// position. candle's `rope` has no gradient. Clones share their angles.
#[derive(Clone, Debug)]
pub struct Rotary {
    table: RotaryTable,
}

impl Rotary {
    /// Angles for vectors of an even `width` and this many positions; `base` is usually 10,000.
    pub fn new(positions: usize, width: usize, base: f64) -> Result<Rotary> {
        if !width.is_multiple_of(2) {
            bail!("rotary positions want an even width, found {width}")
        }
        let steps = (0..width / 2).map(|pair| 1.0 / base.powf(2.0 * pair as f64 / width as f64));
        Ok(Rotary::of_steps(positions, steps.collect()))
    }

    /// Angles from that of each pair at position 1. With fewer pairs than half of a vector's elements, only its first elements are
    /// turned.
    pub fn of_steps(positions: usize, steps: Vec<f64>) -> Rotary {
        Rotary {
            table: RotaryTable::new(positions, steps),
        }
    }

    pub(super) fn table(&self) -> &RotaryTable {
        &self.table
    }

    /// The rotation of tokens at these positions.
    pub fn at(&self, positions: TokenPositions) -> Rotation {
        Rotation {
            table: self.table.clone(),
            positions,
        }
    }

    /// Maps (…, length, width) to the same shape, of the first `length` positions.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let &[.., length, width] = x.dims() else {
            bail!(
                "rotary positions want (…, length, width), found {:?}",
                x.dims()
            )
        };
        let rows = x.elem_count() / (length * width).max(1);
        let turned = ops::rotated(
            &ops::reshape(x, (rows, length, width))?,
            1,
            &self.at(TokenPositions::From(0)),
        )?;
        ops::reshape(&turned, x.shape())
    }
}
