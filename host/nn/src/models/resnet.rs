//! Residual networks with basic blocks (He et al., 2016), with torchvision's names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{activation, flatten, linear};
use crate::{Activation, Extent, InitConfig, LayerConfig};

/// A residual network of basic blocks. The default is ResNet-18 with a stem for small images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResnetConfig {
    /// Number of blocks in each stage. Every stage except the first halves the image and doubles the
    /// channels.
    #[schemars(length(min = 1, max = 8), inner(range(min = 1, max = 10_000)))]
    pub blocks: Vec<usize>,
    /// Channels of the first stage.
    #[schemars(range(min = 1))]
    pub width: usize,
    /// Layers before the stages.
    pub stem: Stem,
    /// Whether the blocks' activations are recomputed in the backward pass instead of kept for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recompute: bool,
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
        layers.push(LayerConfig::MaxPool2d {
            name: Some("maxpool".to_owned()),
            kernel: Extent::Both(3),
            stride: Some(Extent::Both(2)),
            padding: Extent::Both(1),
        });
    }
    let mut inputs = config.width;
    for (stage, &count) in config.blocks.iter().enumerate() {
        let channels = config.width.saturating_mul(1 << stage);
        for block in 0..count {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let name = format!("layer{}.{block}", stage + 1);
            let recompute = config.recompute;
            layers.push(basic_block(name, inputs, channels, stride, recompute));
            inputs = channels;
        }
    }
    layers.push(LayerConfig::AdaptiveAvgPool2d {
        name: Some("avgpool".to_owned()),
        size: Extent::Both(1),
    });
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

fn basic_block(
    name: String,
    inputs: usize,
    channels: usize,
    stride: usize,
    recompute: bool,
) -> LayerConfig {
    let shortcut = if stride == 1 && inputs == channels {
        Vec::new()
    } else {
        vec![
            conv("downsample.0", channels, 1, stride, 0),
            norm("downsample.1"),
        ]
    };
    LayerConfig::Residual {
        name: Some(name),
        layers: vec![
            conv("conv1", channels, 3, stride, 1),
            norm("bn1"),
            activation("relu", Activation::Relu),
            conv("conv2", channels, 3, 1, 1),
            norm("bn2"),
        ],
        shortcut,
        activation: Activation::Relu,
        recompute,
    }
}

fn conv(name: &str, channels: usize, kernel: usize, stride: usize, padding: usize) -> LayerConfig {
    LayerConfig::Conv2d {
        name: Some(name.to_owned()),
        channels,
        kernel: Extent::Both(kernel),
        stride: Extent::Both(stride),
        padding: Extent::Both(padding),
        dilation: Extent::Both(1),
        groups: 1,
        bias: false,
        init: Some(InitConfig::KaimingNormal { a: 0.0 }),
    }
}

fn norm(name: &str) -> LayerConfig {
    LayerConfig::BatchNorm {
        name: Some(name.to_owned()),
        momentum: 0.1,
        epsilon: 1e-5,
    }
}
