//! Normalisation of each position: layer norm and RMS norm; and of groups of channels.

use candle_core::{Result, Tensor};

use super::Layer;
use crate::init::Init;
use crate::onnx::{Attribute, Graph, OnnxError, Value};
use crate::parameters::{self, ParameterScope};
use crate::{Pass, ops};

/// Layer normalisation over the last dimension (Ba et al., 2016).
#[derive(Clone, Debug)]
pub struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    epsilon: f64,
}

impl LayerNorm {
    /// Creates a layer that registers `weight` (ones) and `bias` (zeros). PyTorch's ε is 1e-5.
    pub fn new(
        scope: &mut ParameterScope<'_>,
        width: usize,
        epsilon: f64,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        Ok(LayerNorm {
            weight: scope.parameter("weight", &[width], Init::ONES)?,
            bias: scope.parameter("bias", &[width], Init::ZEROS)?,
            epsilon,
        })
    }

    /// Maps (…, width) to the same shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::layer_norm(x, &self.weight, &self.bias, self.epsilon)
    }
}

impl Layer for LayerNorm {
    fn continues(&self) -> bool {
        true
    }

    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        LayerNorm::forward(self, x)
    }

    fn can_round_outputs(&self) -> bool {
        true
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let (weight, bias) = (graph.weight(&self.weight), graph.weight(&self.bias));
        let options = [
            ("axis", Attribute::Int(-1)),
            ("epsilon", Attribute::Float(self.epsilon)),
        ];
        Ok(graph.node("LayerNormalization", &[x, &weight, &bias], &options))
    }
}

/// Root mean square normalisation over the last dimension (Zhang and Sennrich, 2019).
#[derive(Clone, Debug)]
pub struct RmsNorm {
    weight: Tensor,
    epsilon: f64,
}

impl RmsNorm {
    /// Creates a layer that registers `weight` (ones).
    pub fn new(
        scope: &mut ParameterScope<'_>,
        width: usize,
        epsilon: f64,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        Ok(RmsNorm {
            weight: scope.parameter("weight", &[width], Init::ONES)?,
            epsilon,
        })
    }

    /// Maps (…, width) to the same shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::rms_norm(x, &self.weight, self.epsilon)
    }
}

/// The last dimension divided by its root mean square.
fn divided_by_size(graph: &mut Graph, x: &Value, epsilon: f64) -> Value {
    let squares = graph.of_two("Mul", x, x);
    let last = graph.ints(&[-1]);
    let mean = graph.of_two("ReduceMean", &squares, &last);
    let epsilon = graph.number(epsilon);
    let mean = graph.of_two("Add", &mean, &epsilon);
    let size = graph.node("Sqrt", &[&mean], &[]);
    graph.of_two("Div", x, &size)
}

impl RmsNorm {
    /// Its operations in a graph of ONNX, which has none for it in this version.
    pub(super) fn in_onnx(&self, graph: &mut Graph, x: &Value) -> Value {
        let y = divided_by_size(graph, x, self.epsilon);
        let weight = graph.weight(&self.weight);
        graph.of_two("Mul", &y, &weight)
    }
}

impl Layer for RmsNorm {
    fn continues(&self) -> bool {
        true
    }

    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        RmsNorm::forward(self, x)
    }

    fn can_round_outputs(&self) -> bool {
        true
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        Ok(self.in_onnx(graph, x))
    }
}

/// Vectors divided by their lengths: RMS normalisation with a fixed weight of 1/√width.
#[derive(Clone, Debug)]
pub struct UnitNorm {
    /// As many equal elements as a vector has.
    weight: Tensor,
}

impl UnitNorm {
    /// Added to the mean square, by which vectors of zeros stay so.
    const EPSILON: f64 = 1e-12;

    /// Creates a layer for vectors of `width` elements, on the parameters' device and of their type.
    pub fn new(parameters: &parameters::Parameters, width: usize) -> Result<Self> {
        let weight = Tensor::full(UnitNorm::scale(width), width, parameters.device())?;
        Ok(UnitNorm {
            weight: weight.to_dtype(parameters.dtype())?,
        })
    }

    fn scale(width: usize) -> f64 {
        (width.max(1) as f64).sqrt().recip()
    }

    /// Maps (…, width) to the same shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::rms_norm(x, &self.weight, UnitNorm::EPSILON)
    }
}

impl Layer for UnitNorm {
    fn continues(&self) -> bool {
        true
    }

    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        UnitNorm::forward(self, x)
    }

    fn can_round_outputs(&self) -> bool {
        true
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let y = divided_by_size(graph, x, UnitNorm::EPSILON);
        let scale = graph.number(UnitNorm::scale(self.weight.elem_count()));
        Ok(graph.of_two("Mul", &y, &scale))
    }
}

/// Normalisation of groups of channels (Wu and He, 2018), over all elements of a group in a sample.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    weight: Tensor,
    bias: Tensor,
    groups: usize,
    epsilon: f64,
}

impl GroupNorm {
    /// Creates a layer that registers `weight` (ones) and `bias` (zeros) of each channel, a multiple of the groups. PyTorch's ε
    /// is 1e-5.
    pub fn new(
        scope: &mut ParameterScope<'_>,
        groups: usize,
        channels: usize,
        epsilon: f64,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        Ok(GroupNorm {
            weight: scope.parameter("weight", &[channels], Init::ONES)?,
            bias: scope.parameter("bias", &[channels], Init::ZEROS)?,
            groups,
            epsilon,
        })
    }

    /// Maps (batch, channels, …) to the same shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::group_norm([x, &self.weight, &self.bias], self.groups, self.epsilon)
    }
}

impl Layer for GroupNorm {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        GroupNorm::forward(self, x)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let groups = graph.reshape(x, &[0, self.groups as i64, -1]);
        let [ones, zeros] =
            [1.0, 0.0].map(|number| graph.numbers(&vec![number; self.groups], &[self.groups]));
        let options = [("epsilon", Attribute::Float(self.epsilon))];
        let normed = graph.node("InstanceNormalization", &[&groups, &ones, &zeros], &options);
        let shape = graph.node("Shape", &[x], &[]);
        // A number for each channel, whatever comes after the channels.
        let flat = graph.reshape(&normed, &[0, self.weight.dims1()? as i64, -1]);
        let [weight, bias] = [&self.weight, &self.bias].map(|weight| {
            let weight = graph.weight(weight);
            graph.reshape(&weight, &[1, -1, 1])
        });
        let scaled = graph.of_two("Mul", &flat, &weight);
        let shifted = graph.of_two("Add", &scaled, &bias);
        Ok(graph.of_two("Reshape", &shifted, &shape))
    }
}
