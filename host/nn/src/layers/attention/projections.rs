//! Projections to queries, keys and values.

use candle_core::{Result, Tensor};

use super::options::{AttentionOptions, AttentionProjections, HeadSizes};
use crate::Pass;
use crate::layers::Linear;
use crate::parameters::{self, ParameterScope};

#[derive(Clone, Debug)]
pub(super) enum Projections {
    /// One to all three, side by side.
    Packed(Linear),
    Separate([Linear; 3]),
}

impl Projections {
    pub(super) fn new(
        scope: &mut ParameterScope<'_>,
        width: usize,
        sizes: HeadSizes,
        options: &AttentionOptions,
    ) -> std::result::Result<Projections, parameters::ParametersError> {
        let (of_queries, of_keys) = sizes.widths();
        match &options.projections {
            AttentionProjections::Packed(packed) => {
                let all = of_queries.saturating_add(of_keys.saturating_mul(2));
                let packed = packed.linear(scope, (width, all), options)?;
                Ok(Projections::Packed(packed))
            }
            AttentionProjections::Separate([query, key, value]) => Ok(Projections::Separate([
                query.linear(scope, (width, of_queries), options)?,
                key.linear(scope, (width, of_keys), options)?,
                value.linear(scope, (width, of_keys), options)?,
            ])),
        }
    }

    /// Queries, keys and values side by side, if one projection gives all three.
    pub(super) fn packed(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Option<Tensor>> {
        match self {
            Projections::Packed(packed) => Ok(Some(packed.adapted(x, pass)?)),
            Projections::Separate(_) => Ok(None),
        }
    }

    /// Queries, keys and values, from where they lie side by side, or projected.
    pub(super) fn apart(
        &self,
        x: &Tensor,
        packed: Option<Tensor>,
        sizes: HeadSizes,
        pass: &Pass<'_>,
    ) -> Result<[Tensor; 3]> {
        let (of_queries, of_keys) = sizes.widths();
        match (self, packed) {
            (Projections::Separate([query, key, value]), _) => Ok([
                query.adapted(x, pass)?,
                key.adapted(x, pass)?,
                value.adapted(x, pass)?,
            ]),
            (Projections::Packed(_), Some(qkv)) => Ok([
                qkv.narrow(2, 0, of_queries)?,
                qkv.narrow(2, of_queries, of_keys)?,
                qkv.narrow(2, of_queries + of_keys, of_keys)?,
            ]),
            (Projections::Packed(packed), None) => {
                let qkv = packed.adapted(x, pass)?;
                self.apart(x, Some(qkv), sizes, pass)
            }
        }
    }
}
