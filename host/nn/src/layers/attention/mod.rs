//! Multi-head self-attention.
//!
//! `options`: what an attention is made of. `projections`: to queries, keys and values; `rotary`: their positions. `visible`: which keys a query sees.
//! `onnx`: its operations for other programs.

mod onnx;
mod options;
mod projections;
#[cfg(test)]
mod reference_tests;
mod rotary;
#[cfg(test)]
mod tests;
mod visible;

use candle_core::{Result, Tensor};

use super::{Layer, Linear, RmsNorm};
use crate::Pass;
use crate::onnx::{Graph, OnnxError, Value};
use crate::ops::{self, AttentionDropout, AttentionInputs, AttentionTerms};
use crate::parameters::{self, ParameterScope};
pub use options::{
    AttentionOptions, AttentionProjections, HeadSizes, ProjectionOptions, QueryNormOptions,
};
use projections::Projections;
pub use rotary::Rotary;
use visible::{Sight, visible_keys};

/// Multi-head self-attention (Vaswani et al., 2017): projections to queries, keys and values, and one of the concatenated heads.
/// Heads of keys and values may serve several heads of queries (Ainslie et al., 2023).
#[derive(Clone, Debug)]
pub struct Attention {
    /// Its full name, the key of its dropout and in caches.
    name: String,
    projections: Projections,
    output: Linear,
    /// Norms of each head's queries and keys.
    norms: Option<[RmsNorm; 2]>,
    sizes: HeadSizes,
    sight: Sight,
    rotary: Option<Rotary>,
    scale: Option<f64>,
    dropout: f64,
}

impl Attention {
    /// Creates an attention layer over vectors of `width`. `name` is the layer's name, the key of its dropout.
    pub fn new(
        scope: &mut ParameterScope<'_>,
        width: usize,
        name: &str,
        options: AttentionOptions,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let sizes = options.sizes(width);
        let projections = Projections::new(scope, width, sizes, &options)?;
        let mixed = sizes.heads.saturating_mul(sizes.each);
        let output = options.output.linear(scope, (mixed, width), &options)?;
        let norms = match &options.query_norm {
            None => None,
            Some(QueryNormOptions { names, epsilon }) => {
                let [query, key] = names;
                let mut norm =
                    |name: &str| RmsNorm::new(&mut scope.scope(name), sizes.each, *epsilon);
                Some([norm(query)?, norm(key)?])
            }
        };
        Ok(Attention {
            name: name.to_owned(),
            projections,
            output,
            norms,
            sizes,
            sight: Sight {
                causal: options.causal,
                window: options.window,
            },
            rotary: options.rotary,
            scale: options.scale,
            dropout: options.dropout,
        })
    }

    /// Maps (batch, length, width) to the same shape.
    pub fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let mixed = match &self.projections {
            Projections::Packed(packed) if self.norms.is_none() && pass.cache().is_none() => {
                self.mixed_as_packed(x, packed, pass)?
            }
            _ => {
                let [q, k, v] = self.projections.apart(x, self.sizes, pass)?;
                let (q, k) = (self.normed(q, 0)?, self.normed(k, 1)?);
                self.mixed(x, [q, k, v], pass)?
            }
        };
        self.output.adapted(&mixed, pass)
    }

    /// Attention of queries, keys and values that lie side by side, each tensor kept rounded where what reads it rounds it.
    fn mixed_as_packed(&self, x: &Tensor, packed: &Linear, pass: &mut Pass<'_>) -> Result<Tensor> {
        let (batch, length, _) = x.dims3()?;
        let (of_queries, of_keys) = self.sizes.widths();
        let terms = self.terms(x, pass, 0)?;
        let dims = [batch, length, of_queries + 2 * of_keys];
        let qkv = if packed.can_round_outputs() && ops::rounds_attention(&dims, &terms) {
            ops::rounding_outputs(|| packed.forward(x))?
        } else {
            packed.adapted(x, pass)?
        };
        let mixed = || ops::attention_with(AttentionInputs::Packed(&qkv), &terms);
        if self.output.rounds_input(batch * length) {
            ops::rounding_outputs(mixed)
        } else {
            mixed()
        }
    }

    /// Attention of queries, keys and values of their own, and of those in the pass's cache, if it has one.
    fn mixed(
        &self,
        x: &Tensor,
        [mut q, mut k, mut v]: [Tensor; 3],
        pass: &mut Pass<'_>,
    ) -> Result<Tensor> {
        let (rows, length, _) = x.dims3()?;
        let positions = pass.token_positions(rows, length)?;
        let mut cached = 0;
        if let Some((cache, first)) = pass.cache() {
            if !self.sight.causal {
                candle_core::bail!(
                    "a cache of keys and values is for causal attention; this one sees later positions"
                )
            }
            if let Some(rotary) = &self.rotary {
                let rotation = rotary.at(positions);
                q = ops::rotated(&q, self.sizes.heads, &rotation)?;
                k = ops::rotated(&k, self.sizes.kv_heads, &rotation)?;
            }
            [k, v] = cache.extend(&self.name, first, [&k, &v])?;
            cached = first;
        }
        let mut terms = self.terms(x, pass, cached)?;
        if pass.cache().is_some() {
            terms.rotation = None;
        }
        ops::attention_with(AttentionInputs::Separate([&q, &k, &v]), &terms)
    }

    /// What is computed beside the tensors, for inputs after as many cached positions.
    fn terms(&self, x: &Tensor, pass: &mut Pass<'_>, cached: usize) -> Result<AttentionTerms> {
        let (rows, length, _) = x.dims3()?;
        let positions = pass.token_positions(rows, length)?;
        let is_dropping = pass.is_training() && self.dropout > 0.0;
        let dropout = is_dropping.then(|| {
            let stream = pass.random(&format!("dropout/{}", self.name));
            AttentionDropout::new(self.dropout, stream)
        });
        Ok(AttentionTerms {
            heads: self.sizes.heads,
            kv_heads: self.sizes.kv_heads,
            scale: self.scale,
            visible: visible_keys(self.sight, pass, rows, (length, cached + length))?,
            rotation: self.rotary.as_ref().map(|rotary| rotary.at(positions)),
            dropout,
        })
    }

    /// Queries (0) or keys (1), normed if they are to be.
    fn normed(&self, x: Tensor, which: usize) -> Result<Tensor> {
        let Some(norm) = self.norms.as_ref().and_then(|norms| norms.get(which)) else {
            return Ok(x);
        };
        let (batch, length, width) = x.dims3()?;
        let each = self.sizes.each;
        let heads = ops::reshape(&x, (batch, length, width / each.max(1), each))?;
        ops::reshape(&norm.forward(&heads)?, (batch, length, width))
    }
}

impl Layer for Attention {
    fn rounds_input(&self, rows: usize) -> bool {
        self.projections.round(rows)
    }

    fn continues(&self) -> bool {
        self.sight.causal
    }

    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        Attention::forward(self, x, pass)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        self.in_onnx(graph, x)
    }
}
