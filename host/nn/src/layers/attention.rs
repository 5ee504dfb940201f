//! Multi-head self-attention.

use candle_core::{Result, Tensor};

use super::{Dropout, Layer, Linear, LinearOptions, Rotary};
use crate::init::Init;
use crate::parameters::{self, ParameterScope};
use crate::{Pass, ops};

/// Multi-head self-attention (Vaswani et al., 2017): one projection `qkv` to queries, keys and
/// values, and a projection `proj` of the concatenated heads.
#[derive(Clone, Debug)]
pub struct Attention {
    qkv: Linear,
    proj: Linear,
    heads: usize,
    causal: bool,
    rotary: Option<Rotary>,
    dropout: Dropout,
}

/// Options of [`Attention`].
#[derive(Clone, Debug)]
pub struct AttentionOptions {
    /// Number of heads, a divisor of the width.
    pub heads: usize,
    /// Whether each position attends only to itself and earlier positions.
    pub causal: bool,
    /// Rotary position embedding of queries and keys.
    pub rotary: Option<Rotary>,
    /// Fraction of attention weights dropped during training, from 0 to below 1.
    pub dropout: f64,
    /// Whether the projections have biases.
    pub bias: bool,
    /// Initialisation of the projections' weights; PyTorch's default if none.
    pub init: Option<Init>,
}

impl Attention {
    /// Creates an attention layer over vectors of `width`, a multiple of the heads. `name` is the
    /// layer's name, the key of its dropout.
    pub fn new(
        scope: &mut ParameterScope<'_>,
        width: usize,
        name: &str,
        options: AttentionOptions,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let linear = LinearOptions {
            bias: options.bias,
            init: options.init,
        };
        Ok(Attention {
            qkv: Linear::with(
                &mut scope.scope("qkv"),
                width,
                width.saturating_mul(3),
                linear,
            )?,
            proj: Linear::with(&mut scope.scope("proj"), width, width, linear)?,
            heads: options.heads.max(1),
            causal: options.causal,
            rotary: options.rotary,
            dropout: Dropout::new(options.dropout, name),
        })
    }

    /// Maps (batch, length, width) to the same shape.
    pub fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let (batch, length, width) = x.dims3()?;
        let each = width / self.heads;
        let qkv = self.qkv.forward(x)?;
        if self.rotary.is_none() && !self.dropout.is_on(pass) {
            let mixed = ops::attention(&qkv, self.heads, self.causal)?;
            return self.proj.forward(&mixed);
        }
        let part = |index: usize| {
            qkv.narrow(2, index * width, width)?
                .reshape((batch, length, self.heads, each))?
                .transpose(1, 2)?
                .contiguous()
        };
        let (mut queries, mut keys, values) = (part(0)?, part(1)?, part(2)?);
        if let Some(rotary) = &self.rotary {
            queries = rotary.forward(&queries)?;
            keys = rotary.forward(&keys)?;
        }
        let scale = 1.0 / (each as f64).sqrt();
        let scores = queries.affine(scale, 0.0)?.matmul(&keys.t()?)?;
        let weights = ops::softmax(&scores, self.causal)?;
        let weights = self.dropout.forward(&weights, pass)?;
        let mixed = weights.to_dtype(values.dtype())?.matmul(&values)?;
        let mixed = mixed.transpose(1, 2)?.reshape((batch, length, width))?;
        self.proj.forward(&mixed)
    }
}

impl Layer for Attention {
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        Attention::forward(self, x, pass)
    }
}
