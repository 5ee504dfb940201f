//! A learned vector in the place of positions that a hook masks.

use candle_core::{Result, Tensor, bail};

use crate::init::Init;
use crate::layers::Layer;
use crate::onnx::{Graph, OnnxError, Value};
use crate::parameters::{self, ParameterKind, Parameters};
use crate::{Pass, ops};

/// Puts a learned vector in the place of masked positions (Zhou et al., 2021). Which are masked, a hook publishes before the pass; in a
/// pass without this, as are evaluations and those that hooks ask for, it is the identity.
#[derive(Clone, Debug)]
pub struct MaskTokens {
    /// The layer's name, which is its parameter's.
    name: String,
    token: Tensor,
    /// Name of the published tensor.
    mask: String,
}

impl MaskTokens {
    /// Creates a layer that registers a parameter of this full name, (width): zeros. `mask` names the published tensor, (rows, length), that
    /// is 1 where a position is masked and 0 elsewhere.
    pub fn new(
        parameters: &mut Parameters,
        name: &str,
        width: usize,
        mask: &str,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let kind = ParameterKind::Parameter;
        let token = parameters.register(name.to_owned(), &[width], Init::ZEROS, kind)?;
        Ok(MaskTokens {
            name: name.to_owned(),
            token,
            mask: mask.to_owned(),
        })
    }

    /// Maps (rows, length, width) to the same shape.
    ///
    /// # Errors
    ///
    /// If a mask is published that is not (rows, length).
    pub fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let Some(mask) = pass.published(&self.mask)? else {
            return Ok(x.clone());
        };
        let (rows, length, _) = x.dims3()?;
        if mask.dims() != [rows, length] {
            bail!(
                "the layer `{}` has {rows} rows of {length} positions, and the tensor `{}`, which says the masked ones, the shape {:?}: \
                 {:?} is wanted",
                self.name,
                self.mask,
                mask.dims(),
                [rows, length]
            );
        }
        let mask = mask.to_device(x.device())?.to_dtype(x.dtype())?;
        let masked = mask.unsqueeze(2)?.expand(x.dims())?.contiguous()?;
        let kept = ops::masked(x, &masked.affine(-1.0, 1.0)?)?;
        ops::add(&kept, &ops::columns_times(&masked, &self.token)?)
    }
}

impl Layer for MaskTokens {
    fn continues(&self) -> bool {
        true
    }

    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        MaskTokens::forward(self, x, pass)
    }

    fn onnx(&self, _graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        // Nothing is masked outside of training.
        Ok(x.clone())
    }
}
