//! Residual networks with basic blocks or bottlenecks (He et al., 2016), with torchvision's names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{activation, flatten, linear};
use crate::{
    Activation, AdaptivePoolConfig, BatchNormConfig, Conv2dConfig, Extent, InitConfig, LayerConfig,
    LayerKind, PoolConfig, ResidualConfig,
};

/// A residual network. The default is ResNet-18 with a stem for small images; ResNet-50 has bottlenecks, `[3, 4, 6, 3]` of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResnetConfig {
    /// Number of blocks in each stage. Every stage except the first halves the image and doubles the
    /// channels.
    #[schemars(length(min = 1, max = 8), inner(range(min = 1, max = 10_000)))]
    pub blocks: Vec<usize>,
    /// Kind of the blocks.
    pub block: ResidualBlock,
    /// Channels of the first stage; with bottlenecks those inside its blocks, whose outputs have four times as many.
    #[schemars(range(min = 1))]
    pub width: usize,
    /// Layers before the stages.
    pub stem: Stem,
    /// Whether the blocks' activations are recomputed in the backward pass instead of kept for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recompute: bool,
}

/// Kind of a residual network's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResidualBlock {
    /// Two 3×3 convolutions.
    #[default]
    Basic,
    /// A 1×1, a 3×3 (with the stride) and a 1×1 convolution to four times the channels.
    Bottleneck,
}

/// Layers before a residual network's stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stem {
    /// A 3×3 convolution, for images such as CIFAR's.
    #[default]
    Small,
    /// A 7×7 convolution with stride 2 and 3×3 pooling with stride 2, for images such as `ImageNet`'s.
    Large,
}

impl Default for ResnetConfig {
    fn default() -> Self {
        ResnetConfig {
            blocks: vec![2, 2, 2, 2],
            block: ResidualBlock::Basic,
            width: 64,
            stem: Stem::Small,
            recompute: false,
        }
    }
}

/// Returns the network's layers.
pub fn resnet(config: &ResnetConfig) -> Vec<LayerConfig> {
    let mut layers = match config.stem {
        Stem::Small => stem(config.width, 3, 1, 1),
        Stem::Large => stem(config.width, 7, 2, 3),
    };
    if config.stem == Stem::Large {
        let pool = PoolConfig {
            stride: Some(Extent::Both(2)),
            padding: Extent::Both(1),
            ..PoolConfig::new(3)
        };
        layers.push(LayerConfig::named("maxpool", LayerKind::MaxPool2d(pool)));
    }
    let mut inputs = config.width;
    for (stage, &count) in config.blocks.iter().enumerate() {
        let channels = config.width.saturating_mul(1 << stage);
        for number in 0..count {
            let stride = if stage > 0 && number == 0 { 2 } else { 1 };
            let block = ResidualConfig {
                recompute: config.recompute,
                ..residual_block(config.block, inputs, channels, stride)
            };
            let name = format!("layer{}.{number}", stage + 1);
            layers.push(LayerConfig::named(name, block));
            inputs = config.block.outputs(channels);
        }
    }
    let pool = AdaptivePoolConfig {
        size: Extent::Both(1),
    };
    layers.push(LayerConfig::named(
        "avgpool",
        LayerKind::AdaptiveAvgPool2d(pool),
    ));
    layers.push(flatten());
    layers.push(linear("fc", None));
    layers
}

fn stem(width: usize, kernel: usize, stride: usize, padding: usize) -> Vec<LayerConfig> {
    vec![
        conv("conv1", width, kernel, stride, padding),
        norm("bn1"),
        activation("relu", Activation::Relu),
    ]
}

impl ResidualBlock {
    /// Channels of a block's output, for those inside it.
    fn outputs(self, channels: usize) -> usize {
        match self {
            ResidualBlock::Basic => channels,
            ResidualBlock::Bottleneck => channels.saturating_mul(4),
        }
    }
}

fn residual_block(
    kind: ResidualBlock,
    inputs: usize,
    channels: usize,
    stride: usize,
) -> ResidualConfig {
    let outputs = kind.outputs(channels);
    let shortcut = if stride == 1 && inputs == outputs {
        Vec::new()
    } else {
        vec![
            conv("downsample.0", outputs, 1, stride, 0),
            norm("downsample.1"),
        ]
    };
    let relu = |name: &str| activation(name, Activation::Relu);
    let layers = match kind {
        ResidualBlock::Basic => vec![
            conv("conv1", channels, 3, stride, 1),
            norm("bn1"),
            relu("relu"),
            conv("conv2", channels, 3, 1, 1),
            norm("bn2"),
        ],
        ResidualBlock::Bottleneck => vec![
            conv("conv1", channels, 1, 1, 0),
            norm("bn1"),
            relu("relu1"),
            conv("conv2", channels, 3, stride, 1),
            norm("bn2"),
            relu("relu2"),
            conv("conv3", outputs, 1, 1, 0),
            norm("bn3"),
        ],
    };
    ResidualConfig {
        shortcut,
        activation: Activation::Relu,
        ..ResidualConfig::new(layers)
    }
}

fn conv(name: &str, channels: usize, kernel: usize, stride: usize, padding: usize) -> LayerConfig {
    let conv = Conv2dConfig {
        stride: Extent::Both(stride),
        padding: Extent::Both(padding),
        bias: false,
        init: Some(InitConfig::KaimingNormal { a: 0.0 }),
        ..Conv2dConfig::new(channels, kernel)
    };
    LayerConfig::named(name, conv)
}

fn norm(name: &str) -> LayerConfig {
    LayerConfig::named(name, BatchNormConfig::default())
}
