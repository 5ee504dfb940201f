//! Dropout, reproducible for the same seed, name, epoch and iteration.

use candle_core::{Result, Tensor};

use super::Layer;
use crate::{Pass, ops};

/// Dropout: during training, sets a fraction of the elements to zero and scales the others by
/// 1 / (1 − share) (Srivastava et al., 2014). Otherwise the identity.
#[derive(Clone, Debug)]
pub struct Dropout {
    share: f64,
    /// Key of the random numbers.
    purpose: String,
}

impl Dropout {
    /// Creates dropout of a fraction from 0 to below 1, under a name that no other layer has.
    pub fn new(share: f64, name: &str) -> Dropout {
        Dropout {
            share,
            purpose: format!("dropout/{name}"),
        }
    }

    /// Whether it drops elements in this pass.
    pub(super) fn is_on(&self, pass: &Pass<'_>) -> bool {
        pass.is_training() && self.share > 0.0
    }

    /// Maps a tensor of any shape to the same shape.
    pub fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        if !self.is_on(pass) {
            return Ok(x.clone());
        }
        let factors = ops::dropout_factors(pass.random(&self.purpose), x, self.share)?;
        ops::masked(x, &factors)
    }
}

impl Layer for Dropout {
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        Dropout::forward(self, x, pass)
    }
}
