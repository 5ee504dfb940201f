//! Sizes of a linear layer.

use candle_core::{Result, bail};

#[derive(Clone, Copy)]
pub(super) struct LinearSizes {
    pub(super) rows: usize,
    pub(super) outputs: usize,
    pub(super) inputs: usize,
}

impl LinearSizes {
    pub(super) fn of(x: &[usize], weight: &[usize]) -> Result<LinearSizes> {
        let (&[outputs, inputs], Some((&last, leading))) = (weight, x.split_last()) else {
            bail!("a linear layer of weight {weight:?} was given {x:?}")
        };
        if last != inputs {
            bail!("a linear layer of {inputs} inputs was given {x:?}")
        }
        Ok(LinearSizes {
            rows: leading.iter().product(),
            outputs,
            inputs,
        })
    }
}
