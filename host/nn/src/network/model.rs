//! A model made of layers.

use candle_core::{Result, Tensor};

use crate::onnx::{Graph, OnnxError, Value};
use crate::precision::widened;
use crate::{Layer, Model, ModuleInfo, Pass, Sequence, Signal, Summary};

/// A model made of layers, whose shapes fit.
pub struct Network {
    pub(crate) layers: Sequence,
    pub(crate) modules: Vec<ModuleInfo>,
    pub(crate) input: Signal,
    /// Other shapes of samples that it takes.
    pub(crate) further: Vec<Vec<usize>>,
    pub(crate) output: Signal,
    pub(crate) summary: Summary,
}

impl Network {
    /// Returns the shape and content of the input for one sample.
    pub fn input(&self) -> &Signal {
        &self.input
    }

    /// Returns the shape and content of the output for one sample.
    pub fn output(&self) -> &Signal {
        &self.output
    }

    /// Takes samples of this shape, too: the layers must fit them with the same parameters.
    pub fn take_also(&mut self, sample: &[usize]) {
        self.further.push(sample.to_vec());
    }

    /// Whether it takes samples of this shape.
    fn takes(&self, sample: &[usize]) -> bool {
        self.input.takes(sample) || self.further.iter().any(|shape| shape == sample)
    }

    /// Adds its layers, as in evaluation, to a graph of ONNX; `x` is a batch of inputs.
    ///
    /// # Errors
    ///
    /// The first layer that ONNX's operations can't say.
    pub fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        self.layers.onnx(graph, x)
    }
}

impl Model for Network {
    fn forward(&self, inputs: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        // A batch of scalar inputs has no feature dimension.
        if inputs.rank() == 1 && self.input.shape == [1] {
            return widened(&self.layers.forward(&inputs.unsqueeze(1)?, pass)?);
        }
        let sample = inputs.dims().get(1..).unwrap_or_default();
        let is_further = pass.cache().is_some() && self.continues() && sample.len() == 1;
        if !is_further && !self.takes(sample) {
            candle_core::bail!(
                "the model takes samples of shape {:?}{}, the inputs are {:?}",
                self.input.shape,
                if self.input.varies { " or shorter" } else { "" },
                inputs.dims()
            )
        }
        widened(&self.layers.forward(inputs, pass)?)
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        self.modules.clone()
    }

    fn continues(&self) -> bool {
        self.layers.continues()
    }

    fn summary(&self) -> Option<&Summary> {
        Some(&self.summary)
    }
}
