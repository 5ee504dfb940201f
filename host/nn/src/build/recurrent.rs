//! Builds recurrent layers.

use super::builder::Builder;
use super::made::{Made, flops};
use super::problem::{LayerProblem, rows};
use crate::layers::{Recurrent, RecurrentOptions};
use crate::ops::RecurrentKind;
use crate::{RecurrentConfig, Signal};

impl Builder<'_> {
    pub(super) fn recurrent(
        &mut self,
        kind: RecurrentKind,
        config: &RecurrentConfig,
        name: &str,
        input: &Signal,
    ) -> Result<Made, LayerProblem> {
        let (length, mut width) = rows(input)?;
        let options = RecurrentOptions {
            kind,
            hidden: config.hidden,
            layers: config.layers,
            is_bidirectional: config.bidirectional,
            bias: config.bias,
        };
        let layer = Recurrent::new(&mut self.parameters.scope(name), width, options)?;
        let directions = if config.bidirectional { 2 } else { 1 };
        let mut all = 0_u64;
        for _ in 0..config.layers {
            let inside = width.saturating_add(config.hidden);
            let each = flops([length, directions, kind.gates(), config.hidden, inside]);
            all = all.saturating_add(each);
            width = config.hidden.saturating_mul(directions);
        }
        let mut output = input.clone();
        output.shape = vec![length, width];
        Ok(Made {
            layer: Box::new(layer),
            output,
            flops: all,
        })
    }
}
