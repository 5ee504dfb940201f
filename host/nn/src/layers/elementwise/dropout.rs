//! Dropout, reproducible for the same seed, name, epoch and iteration.

use candle_core::{Result, Tensor};

use crate::layers::Layer;
use crate::onnx::{Graph, OnnxError, Value};
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
    pub(in crate::layers) fn is_on(&self, pass: &Pass<'_>) -> bool {
        pass.is_training() && self.share > 0.0
    }

    /// Maps a tensor of any shape to the same shape.
    pub fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        if !self.is_on(pass) {
            return Ok(x.clone());
        }
        let factors = ops::dropout_factors(&pass.random(&self.purpose), x, self.share)?;
        ops::masked(x, &factors)
    }
}

impl Layer for Dropout {
    fn continues(&self) -> bool {
        true
    }

    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        Dropout::forward(self, x, pass)
    }

    fn onnx(&self, _graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        // Nothing is dropped outside of training.
        Ok(x.clone())
    }
}

/// Stochastic depth (Huang et al., 2016): during training, sets all elements of a fraction of the samples to zero and scales the others by
/// 1 / (1 − share). Otherwise the identity.
#[derive(Clone, Debug)]
pub struct DropPath(Dropout);

impl DropPath {
    /// Creates a layer that drops a fraction of the samples from 0 to below 1, under a name that no other layer has.
    pub fn new(share: f64, name: &str) -> DropPath {
        DropPath(Dropout {
            share,
            purpose: format!("drop-path/{name}"),
        })
    }

    /// Maps (batch, …) to the same shape.
    pub fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let DropPath(Dropout { share, purpose }) = self;
        if !self.0.is_on(pass) {
            return Ok(x.clone());
        }
        let mut each = vec![1; x.rank()];
        if let (Some(first), Some(batch)) = (each.first_mut(), x.dims().first()) {
            *first = *batch;
        }
        let of_samples = Tensor::zeros(each, x.dtype(), x.device())?;
        let factors = ops::dropout_factors(&pass.random(purpose), &of_samples, *share)?;
        ops::masked(x, &factors.broadcast_as(x.shape())?.contiguous()?)
    }
}

impl Layer for DropPath {
    fn continues(&self) -> bool {
        true
    }

    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        DropPath::forward(self, x, pass)
    }

    fn onnx(&self, _graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        // Nothing is dropped outside of training.
        Ok(x.clone())
    }
}
