//! Convolutions over images and sequences, as matrix multiplications of unfolded windows.

use candle_core::{Result, Tensor};

use super::{FusionRole, Layer};
use crate::Pass;
use crate::init::Init;
use crate::onnx::{Attribute, Graph, OnnxError, Value};
use crate::ops::{self, After, Window};
use crate::parameters::{self, ParameterScope};

/// Options of convolutions. Pairs are (height, width), of which a sequence uses the second.
#[derive(Clone, Copy, Debug)]
pub struct ConvOptions {
    /// Step from one window to the next.
    pub stride: (usize, usize),
    /// Zeros around the input.
    pub padding: (usize, usize),
    /// Step from one kernel element to the next.
    pub dilation: (usize, usize),
    /// Number of groups into which the channels are divided; each output sees only its own group.
    pub groups: usize,
    /// Whether a bias is added.
    pub bias: bool,
    /// Initialisation of the weight; PyTorch's default if none.
    pub init: Option<Init>,
}

impl Default for ConvOptions {
    fn default() -> Self {
        ConvOptions {
            stride: (1, 1),
            padding: (0, 0),
            dilation: (1, 1),
            groups: 1,
            bias: true,
            init: None,
        }
    }
}

/// A convolution over images, with PyTorch's shapes, names and initialisation.
#[derive(Clone, Debug)]
pub struct Conv2d {
    weight: Tensor,
    bias: Option<Tensor>,
    window: Window,
    groups: usize,
}

impl Conv2d {
    /// Creates a layer that registers `weight` (outputs, inputs / groups, kernel height, kernel width)
    /// and `bias` (outputs). Inputs and outputs must be multiples of the groups.
    pub fn new(
        scope: &mut ParameterScope<'_>,
        inputs: usize,
        outputs: usize,
        kernel: (usize, usize),
        options: ConvOptions,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let per_group = inputs / options.groups.max(1);
        let shape = [outputs, per_group, kernel.0, kernel.1];
        Conv2d::of_shape(scope, &shape, kernel, options)
    }

    fn of_shape(
        scope: &mut ParameterScope<'_>,
        shape: &[usize],
        kernel: (usize, usize),
        options: ConvOptions,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let init = options.init.unwrap_or_else(Init::linear_weight);
        let weight = scope.parameter("weight", shape, init)?;
        let (outputs, fan_in) = match shape {
            [outputs, rest @ ..] => (*outputs, rest.iter().product()),
            [] => (0, 0),
        };
        let bias = if options.bias {
            Some(scope.parameter("bias", &[outputs], Init::linear_bias(fan_in))?)
        } else {
            None
        };
        Ok(Conv2d {
            weight,
            bias,
            window: Window {
                kernel,
                stride: options.stride,
                padding: options.padding,
                dilation: options.dilation,
            },
            groups: options.groups.max(1),
        })
    }

    /// Maps (batch, inputs, height, width) to (batch, outputs, output height, output width).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_then(x, After::default())
    }

    /// Runs [`forward`](Conv2d::forward) with a following `ReLU` or pooling in the same operation.
    pub fn forward_then(&self, x: &Tensor, after: After) -> Result<Tensor> {
        ops::conv2d_then(
            x,
            &self.weight,
            self.bias.as_ref(),
            self.window,
            self.groups,
            after,
        )
    }
}

impl Conv2d {
    /// Its operation in a graph of ONNX: sizes of kernel, stride, padding and dilation for each dimension.
    fn in_onnx(&self, graph: &mut Graph, x: &Value, sizes: [Vec<usize>; 4]) -> Value {
        let weight = graph.weight(&self.weight);
        let bias = self.bias.as_ref().map(|bias| graph.weight(bias));
        let [kernel, stride, padding, dilation] = sizes.map(|sizes| of_sizes(&sizes));
        let options = [
            ("kernel_shape", Attribute::Ints(kernel)),
            ("strides", Attribute::Ints(stride)),
            // Before and after.
            ("pads", Attribute::Ints(padding.repeat(2))),
            ("dilations", Attribute::Ints(dilation)),
            ("group", Attribute::Int(self.groups as i64)),
        ];
        let inputs: Vec<&Value> = [x, &weight].into_iter().chain(&bias).collect();
        graph.node("Conv", &inputs, &options)
    }
}

fn of_sizes(sizes: &[usize]) -> Vec<i64> {
    sizes.iter().map(|&size| size as i64).collect()
}

impl Layer for Conv2d {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        Conv2d::forward(self, x)
    }

    fn role(&self) -> FusionRole<'_> {
        FusionRole::Conv2d(self)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let Window {
            kernel,
            stride,
            padding,
            dilation,
        } = self.window;
        let both = |(height, width)| vec![height, width];
        let sizes = [both(kernel), both(stride), both(padding), both(dilation)];
        Ok(self.in_onnx(graph, x, sizes))
    }
}

/// A convolution over sequences, with PyTorch's shapes, names and initialisation.
#[derive(Clone, Debug)]
pub struct Conv1d(Conv2d);

impl Conv1d {
    /// Creates a layer that registers `weight` (outputs, inputs / groups, kernel) and `bias` (outputs).
    /// It uses the second element of each pair in the options.
    pub fn new(
        scope: &mut ParameterScope<'_>,
        inputs: usize,
        outputs: usize,
        kernel: usize,
        options: ConvOptions,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let options = ConvOptions {
            stride: (1, options.stride.1),
            padding: (0, options.padding.1),
            dilation: (1, options.dilation.1),
            ..options
        };
        let shape = [outputs, inputs / options.groups.max(1), kernel];
        Conv2d::of_shape(scope, &shape, (1, kernel), options).map(Conv1d)
    }

    /// Maps (batch, inputs, length) to (batch, outputs, output length).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.0.forward(&x.unsqueeze(2)?)?.squeeze(2)
    }
}

impl Layer for Conv1d {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        Conv1d::forward(self, x)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let Window {
            kernel,
            stride,
            padding,
            dilation,
        } = self.0.window;
        let sizes = [kernel, stride, padding, dilation].map(|(_, width)| vec![width]);
        Ok(self.0.in_onnx(graph, x, sizes))
    }
}

/// A transposed convolution over images, with PyTorch's shapes, names and initialisation.
#[derive(Clone, Debug)]
pub struct ConvTranspose2d {
    weight: Tensor,
    bias: Option<Tensor>,
    window: Window,
    groups: usize,
    /// Rows and columns after the last windows.
    added: (usize, usize),
}

impl ConvTranspose2d {
    /// Creates a layer that registers `weight` (inputs, outputs / groups, kernel height, kernel width) and `bias` (outputs), of a kernel
    /// and as many rows and columns after the last windows. Inputs and outputs must be multiples of the groups.
    pub fn new(
        scope: &mut ParameterScope<'_>,
        inputs: usize,
        outputs: usize,
        (kernel, added): ((usize, usize), (usize, usize)),
        options: ConvOptions,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let groups = options.groups.max(1);
        let shape = [inputs, outputs / groups, kernel.0, kernel.1];
        let init = options.init.unwrap_or_else(Init::linear_weight);
        let weight = scope.parameter("weight", &shape, init)?;
        let bias = if options.bias {
            // PyTorch's, which takes the outputs for the inputs here.
            let fan_in = shape.iter().skip(1).product();
            Some(scope.parameter("bias", &[outputs], Init::linear_bias(fan_in))?)
        } else {
            None
        };
        Ok(ConvTranspose2d {
            weight,
            bias,
            window: Window {
                kernel,
                stride: options.stride,
                padding: options.padding,
                dilation: options.dilation,
            },
            groups,
            added,
        })
    }

    /// Maps (batch, inputs, height, width) to (batch, outputs, output height, output width).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref();
        ops::conv_transpose2d(x, &self.weight, bias, self.window, self.groups, self.added)
    }
}

impl Layer for ConvTranspose2d {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        ConvTranspose2d::forward(self, x)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let weight = graph.weight(&self.weight);
        let bias = self.bias.as_ref().map(|bias| graph.weight(bias));
        let both = |(height, width): (usize, usize)| of_sizes(&[height, width]);
        let options = [
            ("kernel_shape", Attribute::Ints(both(self.window.kernel))),
            ("strides", Attribute::Ints(both(self.window.stride))),
            // Before and after.
            ("pads", Attribute::Ints(both(self.window.padding).repeat(2))),
            ("dilations", Attribute::Ints(both(self.window.dilation))),
            ("output_padding", Attribute::Ints(both(self.added))),
            ("group", Attribute::Int(self.groups as i64)),
        ];
        let inputs: Vec<&Value> = [x, &weight].into_iter().chain(&bias).collect();
        Ok(graph.node("ConvTranspose", &inputs, &options))
    }
}
