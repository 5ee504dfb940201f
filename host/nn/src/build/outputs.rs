//! Outputs of a model, which its data's targets prescribe.

use super::builder::Builder;
use super::problem::LayerError;
use crate::{Inputs, Signal, Targets};

impl Builder<'_> {
    /// Checks that the model's outputs have the shape that the targets need.
    pub(super) fn expect_outputs(
        &self,
        output: &Signal,
        input: &Signal,
        targets: &Targets,
        count: usize,
    ) -> Result<(), LayerError> {
        let (wanted, varies) = match targets {
            Targets::None => (output.shape.clone(), output.varies),
            Targets::Class(_) | Targets::Numbers(_) => (vec![self.outputs], false),
            Targets::ClassPerPosition(_) | Targets::TokenPerPosition(_) => {
                let positions = input.shape.first().copied().unwrap_or(0);
                (vec![positions, self.outputs], input.varies)
            }
        };
        let fits = output.shape == wanted && output.varies == varies;
        if fits && output.content == Inputs::Numbers {
            return Ok(());
        }
        let last = self.layers.iter().rev().find(|layer| layer.depth == 0);
        let what = match targets {
            Targets::None => "of whatever meaning",
            Targets::Class(_) => "a number for each class",
            Targets::Numbers(_) => "a number for each target",
            Targets::ClassPerPosition(_) => "a number for each class at each position",
            Targets::TokenPerPosition(_) => "a number for each token at each position",
        };
        Err(LayerError {
            path: format!("layers[{}]", count.saturating_sub(1)),
            name: last.map_or_else(String::new, |layer| layer.name.clone()),
            kind: last.map_or("the input", |layer| layer.kind),
            problem: format!(
                "is the last and gives {output}; the data's targets want numbers of shape \
                 {wanted:?}, {what}"
            ),
            is_too_large: false,
        })
    }
}
