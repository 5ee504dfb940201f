//! What an attention layer is made of.

use crate::init::Init;
use crate::layers::{Linear, LinearOptions, Rotary};
use crate::ops::WeightOrder;
use crate::parameters::{self, ParameterScope};

/// Options of an [`Attention`](super::Attention).
#[derive(Clone, Debug)]
pub struct AttentionOptions {
    /// Number of heads of queries.
    pub heads: usize,
    /// Number of heads of keys and values, a divisor of `heads`; as many if none.
    pub kv_heads: Option<usize>,
    /// Width of a head; that of the vectors divided by `heads` if none.
    pub head_width: Option<usize>,
    /// Whether each position attends only to itself and earlier positions.
    pub causal: bool,
    /// Number of positions that each attends to, itself and those before it, if causal; all if none.
    pub window: Option<usize>,
    /// Rotary position embedding of queries and keys.
    pub rotary: Option<Rotary>,
    /// Root mean square norms of each head's queries and keys, before they are rotated.
    pub query_norm: Option<QueryNormOptions>,
    /// Factor of the scores, above 0; 1 / √(width of a head) if none.
    pub scale: Option<f64>,
    /// Fraction of attention weights dropped during training, from 0 to below 1.
    pub dropout: f64,
    /// Projections to queries, keys and values.
    pub projections: AttentionProjections,
    /// The projection of the concatenated heads.
    pub output: ProjectionOptions,
    /// Order of the dimensions of the projections' weights.
    pub order: WeightOrder,
    /// Initialisation of the projections' weights; PyTorch's default if none.
    pub init: Option<Init>,
}

/// Projections to queries, keys and values.
#[derive(Clone, Debug)]
pub enum AttentionProjections {
    /// One to all three, side by side.
    Packed(ProjectionOptions),
    /// One to each.
    Separate([ProjectionOptions; 3]),
}

/// A projection of an attention.
#[derive(Clone, Debug)]
pub struct ProjectionOptions {
    /// Name, within the layer's.
    pub name: String,
    /// Whether it has a bias.
    pub bias: bool,
    /// Initialisation of its weight; the attention's if none.
    pub init: Option<Init>,
}

/// Norms of each head's queries and keys.
#[derive(Clone, Debug)]
pub struct QueryNormOptions {
    /// Names of the queries' and the keys', within the layer's.
    pub names: [String; 2],
    /// Constant added to the mean square.
    pub epsilon: f64,
}

/// Numbers of heads, and the width of each.
#[derive(Clone, Copy, Debug)]
pub struct HeadSizes {
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Width of a head.
    pub each: usize,
}

impl AttentionOptions {
    /// Attention of this many heads to all positions, with biases, and projections `qkv` and `proj`.
    pub fn new(heads: usize) -> AttentionOptions {
        AttentionOptions {
            heads,
            kv_heads: None,
            head_width: None,
            causal: false,
            window: None,
            rotary: None,
            query_norm: None,
            scale: None,
            dropout: 0.0,
            projections: AttentionProjections::Packed(ProjectionOptions::new("qkv", true)),
            output: ProjectionOptions::new("proj", true),
            order: WeightOrder::default(),
            init: None,
        }
    }

    /// Returns the sizes of heads over vectors of `width`.
    pub fn sizes(&self, width: usize) -> HeadSizes {
        let heads = self.heads.max(1);
        HeadSizes {
            heads,
            kv_heads: self.kv_heads.unwrap_or(heads).max(1),
            each: self.head_width.unwrap_or(width / heads),
        }
    }
}

impl HeadSizes {
    /// Width of all heads of queries, and of all heads of keys.
    pub fn widths(self) -> (usize, usize) {
        let width = |heads: usize| heads.saturating_mul(self.each);
        (width(self.heads), width(self.kv_heads))
    }
}

impl ProjectionOptions {
    /// A projection of this name.
    pub fn new(name: impl Into<String>, bias: bool) -> ProjectionOptions {
        ProjectionOptions {
            name: name.into(),
            bias,
            init: None,
        }
    }

    /// Makes it, of (inputs, outputs).
    pub(super) fn linear(
        &self,
        scope: &mut ParameterScope<'_>,
        (inputs, outputs): (usize, usize),
        of: &AttentionOptions,
    ) -> std::result::Result<Linear, parameters::ParametersError> {
        let options = LinearOptions {
            bias: self.bias,
            init: self.init.or(of.init),
            order: of.order,
        };
        Linear::with(&mut scope.scope(&self.name), inputs, outputs, options)
    }
}
