//! Projections to queries, keys and values.

use candle_core::{Result, Tensor};

use super::options::{AttentionOptions, AttentionProjections, HeadSizes};
use crate::Pass;
use crate::layers::{Layer, Linear};
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

    /// Whether they read an input of this many rows only as factors of products that round it.
    pub(super) fn round(&self, rows: usize) -> bool {
        match self {
            Projections::Packed(packed) => packed.rounds_input(rows),
            Projections::Separate(all) => {
                all.iter().all(|projection| projection.rounds_input(rows))
            }
        }
    }

    /// Queries, keys and values apart.
    pub(super) fn apart(
        &self,
        x: &Tensor,
        sizes: HeadSizes,
        pass: &Pass<'_>,
    ) -> Result<[Tensor; 3]> {
        let (of_queries, of_keys) = sizes.widths();
        match self {
            Projections::Separate([query, key, value]) => Ok([
                query.adapted(x, pass)?,
                key.adapted(x, pass)?,
                value.adapted(x, pass)?,
            ]),
            Projections::Packed(packed) => {
                let qkv = packed.adapted(x, pass)?;
                Ok([
                    qkv.narrow(2, 0, of_queries)?,
                    qkv.narrow(2, of_queries, of_keys)?,
                    qkv.narrow(2, of_queries + of_keys, of_keys)?,
                ])
            }
        }
    }
}
