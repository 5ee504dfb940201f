//! Layers in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Activation, Extent, InitConfig};

/// A layer of a `sequential` model. Its input's shape is that of the layer before it; its name is
/// that of its parameters and of the module at which hooks listen. Default: its kind and a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LayerConfig {
    /// y = x · Wᵀ + b over the last dimension.
    Linear {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// How many numbers it gives. Default: as many as the data's targets want.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        outputs: Option<usize>,
        /// Whether a bias is added.
        #[serde(default = "yes")]
        bias: bool,
        /// How the weight begins. Default: PyTorch's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init: Option<InitConfig>,
    },
    /// A convolution over sequences (channels, length).
    Conv1d {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// How many channels it gives.
        #[schemars(range(min = 1))]
        channels: usize,
        /// The places of a window.
        #[schemars(range(min = 1))]
        kernel: usize,
        /// From one window to the next.
        #[serde(default = "one")]
        #[schemars(range(min = 1))]
        stride: usize,
        /// Zeros on both sides.
        #[serde(default)]
        padding: usize,
        /// From one place of a window to the next.
        #[serde(default = "one")]
        #[schemars(range(min = 1))]
        dilation: usize,
        /// Into how many groups the channels are divided.
        #[serde(default = "one")]
        #[schemars(range(min = 1))]
        groups: usize,
        /// Whether a bias is added.
        #[serde(default = "yes")]
        bias: bool,
        /// How the weight begins. Default: PyTorch's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init: Option<InitConfig>,
    },
    /// A convolution over images (channels, height, width).
    Conv2d {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// How many channels it gives.
        #[schemars(range(min = 1))]
        channels: usize,
        /// The places of a window.
        kernel: Extent,
        /// From one window to the next.
        #[serde(default = "one_extent")]
        stride: Extent,
        /// Zeros on all sides.
        #[serde(default = "zero_extent")]
        padding: Extent,
        /// From one place of a window to the next.
        #[serde(default = "one_extent")]
        dilation: Extent,
        /// Into how many groups the channels are divided.
        #[serde(default = "one")]
        #[schemars(range(min = 1))]
        groups: usize,
        /// Whether a bias is added.
        #[serde(default = "yes")]
        bias: bool,
        /// How the weight begins. Default: PyTorch's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init: Option<InitConfig>,
    },
    /// The largest number of each window of an image.
    MaxPool2d {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The places of a window.
        kernel: Extent,
        /// From one window to the next. Default: the window's size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stride: Option<Extent>,
        /// Places on all sides that are never the largest; at most half of the window.
        #[serde(default = "zero_extent")]
        padding: Extent,
    },
    /// The mean of each window of an image.
    AvgPool2d {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The places of a window.
        kernel: Extent,
        /// From one window to the next. Default: the window's size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stride: Option<Extent>,
        /// Zeros on all sides; at most half of the window.
        #[serde(default = "zero_extent")]
        padding: Extent,
    },
    /// The largest numbers of as many windows as wanted, which cover an image of any size.
    AdaptiveMaxPool2d {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// How many windows.
        #[serde(default = "one_extent")]
        size: Extent,
    },
    /// The means of as many windows as wanted, which cover an image of any size.
    AdaptiveAvgPool2d {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// How many windows.
        #[serde(default = "one_extent")]
        size: Extent,
    },
    /// Batch normalisation of each channel, with running statistics outside training.
    BatchNorm {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// How much of a batch's statistics goes into the running ones.
        #[serde(default = "momentum")]
        #[schemars(range(min = 0.0, max = 1.0))]
        momentum: f64,
        /// What is added to the variance; above 0.
        #[serde(default = "epsilon")]
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        epsilon: f64,
    },
    /// Layer normalisation over the last dimension.
    LayerNorm {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// What is added to the variance; above 0.
        #[serde(default = "epsilon")]
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        epsilon: f64,
    },
    /// Root mean square normalisation over the last dimension.
    RmsNorm {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// What is added to the mean square; above 0.
        #[serde(default = "epsilon")]
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        epsilon: f64,
    },
    /// In training, zeros for a share of the numbers.
    Dropout {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The share, from 0 to below 1.
        #[serde(default = "half")]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        share: f64,
    },
    /// A learned vector for each token.
    Embedding {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The vectors' length.
        #[schemars(range(min = 1))]
        width: usize,
        /// How the table begins. Default: standard normal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init: Option<InitConfig>,
    },
    /// Adds a learned vector for each position of (length, width).
    PositionEmbedding {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// How the table begins. Default: standard normal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init: Option<InitConfig>,
    },
    /// Multi-head self-attention over (length, width).
    Attention {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Into how many heads the width is divided.
        #[schemars(range(min = 1))]
        heads: usize,
        /// Whether a position sees itself and those before it alone.
        #[serde(default)]
        causal: bool,
        /// Rotary positions.
        #[serde(default)]
        rotary: bool,
        /// The share of the attention's weights that training drops, from 0 to below 1.
        #[serde(default)]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        dropout: f64,
        /// Whether the projections have biases.
        #[serde(default = "yes")]
        bias: bool,
        /// How the projections' weights begin. Default: PyTorch's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init: Option<InitConfig>,
    },
    /// A nonlinearity on every number.
    Activation {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Which.
        function: Activation,
    },
    /// max(x, 0).
    Relu {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// x · Φ(x), with the error function.
    Gelu {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// x · σ(x).
    Silu {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// The hyperbolic tangent.
    Tanh {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// 1 / (1 + e⁻ˣ).
    Sigmoid {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Any shape as one dimension.
    Flatten {
        /// Its name. Without one it is no module.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// The same numbers in another shape.
    Reshape {
        /// Its name. Without one it is no module.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The shape of a sample.
        #[schemars(length(min = 1, max = 5), inner(range(min = 1)))]
        shape: Vec<usize>,
    },
    /// The mean over the positions of (length, width).
    MeanPositions {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Layers one after the other, whose names begin with its own.
    Sequential {
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The layers.
        layers: Vec<LayerConfig>,
    },
    /// Its input added to what its layers make of it.
    Residual {
        /// Its name, with which those of its layers begin. Without one it adds nothing to their names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The layers.
        layers: Vec<LayerConfig>,
        /// Layers for the input on its way past the others. Default: none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shortcut: Vec<LayerConfig>,
        /// The nonlinearity on the sum.
        #[serde(default = "identity")]
        activation: Activation,
    },
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

fn one_extent() -> Extent {
    Extent::Both(1)
}

fn zero_extent() -> Extent {
    Extent::Both(0)
}

fn momentum() -> f64 {
    0.1
}

fn epsilon() -> f64 {
    1e-5
}

fn half() -> f64 {
    0.5
}

fn identity() -> Activation {
    Activation::Identity
}

impl LayerConfig {
    /// What it is called in the manifest.
    pub fn kind(&self) -> &'static str {
        match self {
            LayerConfig::Linear { .. } => "linear",
            LayerConfig::Conv1d { .. } => "conv1d",
            LayerConfig::Conv2d { .. } => "conv2d",
            LayerConfig::MaxPool2d { .. } => "max-pool2d",
            LayerConfig::AvgPool2d { .. } => "avg-pool2d",
            LayerConfig::AdaptiveMaxPool2d { .. } => "adaptive-max-pool2d",
            LayerConfig::AdaptiveAvgPool2d { .. } => "adaptive-avg-pool2d",
            LayerConfig::BatchNorm { .. } => "batch-norm",
            LayerConfig::LayerNorm { .. } => "layer-norm",
            LayerConfig::RmsNorm { .. } => "rms-norm",
            LayerConfig::Dropout { .. } => "dropout",
            LayerConfig::Embedding { .. } => "embedding",
            LayerConfig::PositionEmbedding { .. } => "position-embedding",
            LayerConfig::Attention { .. } => "attention",
            LayerConfig::Activation { function, .. } => function.name(),
            LayerConfig::Relu { .. } => "relu",
            LayerConfig::Gelu { .. } => "gelu",
            LayerConfig::Silu { .. } => "silu",
            LayerConfig::Tanh { .. } => "tanh",
            LayerConfig::Sigmoid { .. } => "sigmoid",
            LayerConfig::Flatten { .. } => "flatten",
            LayerConfig::Reshape { .. } => "reshape",
            LayerConfig::MeanPositions { .. } => "mean-positions",
            LayerConfig::Sequential { .. } => "sequential",
            LayerConfig::Residual { .. } => "residual",
        }
    }

    /// The name that it was given.
    pub fn name(&self) -> Option<&str> {
        match self {
            LayerConfig::Linear { name, .. }
            | LayerConfig::Conv1d { name, .. }
            | LayerConfig::Conv2d { name, .. }
            | LayerConfig::MaxPool2d { name, .. }
            | LayerConfig::AvgPool2d { name, .. }
            | LayerConfig::AdaptiveMaxPool2d { name, .. }
            | LayerConfig::AdaptiveAvgPool2d { name, .. }
            | LayerConfig::BatchNorm { name, .. }
            | LayerConfig::LayerNorm { name, .. }
            | LayerConfig::RmsNorm { name, .. }
            | LayerConfig::Dropout { name, .. }
            | LayerConfig::Embedding { name, .. }
            | LayerConfig::PositionEmbedding { name, .. }
            | LayerConfig::Attention { name, .. }
            | LayerConfig::Activation { name, .. }
            | LayerConfig::Relu { name }
            | LayerConfig::Gelu { name }
            | LayerConfig::Silu { name }
            | LayerConfig::Tanh { name }
            | LayerConfig::Sigmoid { name }
            | LayerConfig::Flatten { name }
            | LayerConfig::Reshape { name, .. }
            | LayerConfig::MeanPositions { name }
            | LayerConfig::Sequential { name, .. }
            | LayerConfig::Residual { name, .. } => name.as_deref(),
        }
    }
}
