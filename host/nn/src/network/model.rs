//! A model made of layers.

use candle_core::{Result, Tensor};

use crate::precision::widened;
use crate::{Layer, Model, ModuleInfo, Pass, Sequence, Signal, Summary};

/// A model made of layers, whose shapes fit.
pub struct Network {
    pub(crate) layers: Sequence,
    pub(crate) modules: Vec<ModuleInfo>,
    pub(crate) input: Signal,
    pub(crate) output: Signal,
    pub(crate) summary: Summary,
}

impl Network {
    /// Returns the shape and content of the output for one sample.
    pub fn output(&self) -> &Signal {
        &self.output
    }
}

impl Model for Network {
    fn forward(&self, inputs: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        // A batch of scalar inputs has no feature dimension.
        if inputs.rank() == 1 && self.input.shape == [1] {
            return widened(&self.layers.forward(&inputs.unsqueeze(1)?, pass)?);
        }
        let is_as_told = inputs.dims().get(1..) == Some(&self.input.shape[..]);
        if !is_as_told {
            candle_core::bail!(
                "the model takes samples of shape {:?}, the inputs are {:?}",
                self.input.shape,
                inputs.dims()
            )
        }
        widened(&self.layers.forward(inputs, pass)?)
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        self.modules.clone()
    }

    fn summary(&self) -> Option<&Summary> {
        Some(&self.summary)
    }
}
