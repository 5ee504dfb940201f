//! Layers in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Activation, Extent, InitConfig};

/// A layer of a `sequential` model. Its input shape follows from the layer before it. Its name is the
/// prefix of its parameters' names, and the module's name for hooks. Default: its kind and a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LayerConfig {
    /// y = x · Wᵀ + b over the last dimension.
    Linear {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Number of outputs. Default: the number that the data's targets need.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        outputs: Option<usize>,
        /// Whether a bias is added.
        #[serde(default = "yes")]
        bias: bool,
        /// Initialisation of the weight. Default: PyTorch's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init: Option<InitConfig>,
    },
    /// A convolution over sequences of shape (channels, length).
    Conv1d {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Number of output channels.
        #[schemars(range(min = 1))]
        channels: usize,
        /// Kernel size.
        #[schemars(range(min = 1))]
        kernel: usize,
        /// Step from one window to the next.
        #[serde(default = "one")]
        #[schemars(range(min = 1))]
        stride: usize,
        /// Zeros added on both sides.
        #[serde(default)]
        padding: usize,
        /// Step from one kernel element to the next.
        #[serde(default = "one")]
        #[schemars(range(min = 1))]
        dilation: usize,
        /// Number of groups into which the channels are divided.
        #[serde(default = "one")]
        #[schemars(range(min = 1))]
        groups: usize,
        /// Whether a bias is added.
        #[serde(default = "yes")]
        bias: bool,
        /// Initialisation of the weight. Default: PyTorch's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init: Option<InitConfig>,
    },
    /// A convolution over images of shape (channels, height, width).
    Conv2d {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Number of output channels.
        #[schemars(range(min = 1))]
        channels: usize,
        /// Kernel size.
        kernel: Extent,
        /// Step from one window to the next.
        #[serde(default = "one_extent")]
        stride: Extent,
        /// Zeros added on all sides.
        #[serde(default = "zero_extent")]
        padding: Extent,
        /// Step from one kernel element to the next.
        #[serde(default = "one_extent")]
        dilation: Extent,
        /// Number of groups into which the channels are divided.
        #[serde(default = "one")]
        #[schemars(range(min = 1))]
        groups: usize,
        /// Whether a bias is added.
        #[serde(default = "yes")]
        bias: bool,
        /// Initialisation of the weight. Default: PyTorch's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init: Option<InitConfig>,
    },
    /// The maximum of each window of an image.
    MaxPool2d {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Kernel size.
        kernel: Extent,
        /// Step from one window to the next. Default: the kernel size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stride: Option<Extent>,
        /// Padding on all sides, which is never the maximum; at most half of the kernel size.
        #[serde(default = "zero_extent")]
        padding: Extent,
    },
    /// The mean of each window of an image.
    AvgPool2d {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Kernel size.
        kernel: Extent,
        /// Step from one window to the next. Default: the kernel size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stride: Option<Extent>,
        /// Zeros added on all sides, at most half of the kernel size.
        #[serde(default = "zero_extent")]
        padding: Extent,
    },
    /// Maxima over a fixed number of windows, which cover an image of any size.
    AdaptiveMaxPool2d {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Number of windows, which is the size of the output.
        #[serde(default = "one_extent")]
        size: Extent,
    },
    /// Means over a fixed number of windows, which cover an image of any size.
    AdaptiveAvgPool2d {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Number of windows, which is the size of the output.
        #[serde(default = "one_extent")]
        size: Extent,
    },
    /// Batch normalisation of each channel; uses running statistics outside training.
    BatchNorm {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Weight of a batch's statistics when the running ones are updated.
        #[serde(default = "momentum")]
        #[schemars(range(min = 0.0, max = 1.0))]
        momentum: f64,
        /// Constant added to the variance; above 0.
        #[serde(default = "epsilon")]
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        epsilon: f64,
    },
    /// Layer normalisation over the last dimension.
    LayerNorm {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Constant added to the variance; above 0.
        #[serde(default = "epsilon")]
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        epsilon: f64,
    },
    /// Root mean square normalisation over the last dimension.
    RmsNorm {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Constant added to the mean square; above 0.
        #[serde(default = "epsilon")]
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        epsilon: f64,
    },
    /// Sets a fraction of the elements to zero during training.
    Dropout {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Fraction of elements set to zero, from 0 to below 1.
        #[serde(default = "half")]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        share: f64,
    },
    /// A learned vector per token.
    Embedding {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Length of the vectors.
        #[schemars(range(min = 1))]
        width: usize,
        /// Initialisation of the table. Default: standard normal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init: Option<InitConfig>,
    },
    /// Replaces each category of a table's row by a learned vector: the columns of `data.embed`. Other inputs stay as they
    /// are.
    EmbedCategories {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Length of the vectors of all columns. Default: 1.6 · categories^0.56, at most 600, for each column.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 1))]
        width: Option<usize>,
        /// Initialisation of the tables. Default: standard normal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init: Option<InitConfig>,
    },
    /// Adds a learned vector to each position of (length, width).
    PositionEmbedding {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Initialisation of the table. Default: standard normal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init: Option<InitConfig>,
    },
    /// Multi-head self-attention over (length, width).
    Attention {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Number of attention heads; the width must be a multiple of it.
        #[schemars(range(min = 1))]
        heads: usize,
        /// Whether a position attends only to itself and earlier positions.
        #[serde(default)]
        causal: bool,
        /// Whether queries and keys get rotary position embeddings.
        #[serde(default)]
        rotary: bool,
        /// Fraction of attention weights dropped during training, from 0 to below 1.
        #[serde(default)]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
        dropout: f64,
        /// Whether the projections have biases.
        #[serde(default = "yes")]
        bias: bool,
        /// Initialisation of the projections' weights. Default: PyTorch's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        init: Option<InitConfig>,
    },
    /// An elementwise nonlinearity.
    Activation {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Function to apply.
        function: Activation,
    },
    /// max(x, 0).
    Relu {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// x · Φ(x), the exact form with the error function.
    Gelu {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// x · σ(x).
    Silu {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// The hyperbolic tangent.
    Tanh {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// 1 / (1 + e⁻ˣ).
    Sigmoid {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// Flattens a sample to one dimension.
    Flatten {
        /// Name of the layer; without a name it is not a module.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// The same elements in another shape.
    Reshape {
        /// Name of the layer; without a name it is not a module.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// New shape of a sample.
        #[schemars(length(min = 1, max = 5), inner(range(min = 1)))]
        shape: Vec<usize>,
    },
    /// Pixels or patches as a sequence: (channels, height, width) to (height · width, channels), row by row, and
    /// (channels, length) to (length, channels).
    Positions {
        /// Name of the layer; without a name it is not a module.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// The mean over the positions of (length, width).
    MeanPositions {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A list of layers that run in order; their names begin with its own.
    Sequential {
        /// Name of the layer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Layers to run in order.
        layers: Vec<LayerConfig>,
        /// Whether the activations inside are recomputed in the backward pass instead of kept for it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        recompute: bool,
    },
    /// The input, plus the output of the layers.
    Residual {
        /// Name of the layer, a prefix of the names inside it; without it they have no prefix.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Layers to run in order.
        layers: Vec<LayerConfig>,
        /// Layers applied to the input before it is added. Default: none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        shortcut: Vec<LayerConfig>,
        /// Nonlinearity applied to the sum.
        #[serde(default = "identity")]
        activation: Activation,
        /// Whether the activations inside are recomputed in the backward pass instead of kept for it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        recompute: bool,
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
    /// Returns the layer's kind in the manifest.
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
            LayerConfig::EmbedCategories { .. } => "embed-categories",
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
            LayerConfig::Positions { .. } => "positions",
            LayerConfig::MeanPositions { .. } => "mean-positions",
            LayerConfig::Sequential { .. } => "sequential",
            LayerConfig::Residual { .. } => "residual",
        }
    }

    /// Returns the name given in the manifest.
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
            | LayerConfig::EmbedCategories { name, .. }
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
            | LayerConfig::Positions { name }
            | LayerConfig::MeanPositions { name }
            | LayerConfig::Sequential { name, .. }
            | LayerConfig::Residual { name, .. } => name.as_deref(),
        }
    }
}
