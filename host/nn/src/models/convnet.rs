//! A plain convolutional network in the style of `LeNet` (`LeCun` et al., 1998).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{activation, dropout, flatten, linear};
use crate::{
    Activation, BatchNormConfig, Conv2dConfig, Extent, LayerConfig, LayerKind, PoolConfig,
};

/// A convolutional network: blocks of convolution, nonlinearity and pooling, then linear layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConvnetConfig {
    /// Output channels of the convolutions `conv1`, `conv2`, ….
    #[schemars(length(min = 1), inner(range(min = 1)))]
    pub channels: Vec<usize>,
    /// Kernel size of the convolutions.
    pub kernel: Extent,
    /// Zero padding of the convolutions.
    pub padding: Extent,
    /// Window size of the max pooling after each convolution; 1 for none.
    #[schemars(range(min = 1))]
    pub pool: usize,
    /// Whether each convolution is followed by batch normalisation; it then has no bias.
    pub batch_norm: bool,
    /// Widths of the linear layers `fc1`, `fc2`, … before the last one.
    #[schemars(inner(range(min = 1)))]
    pub hidden: Vec<usize>,
    /// Nonlinearity.
    pub activation: Activation,
    /// Nonlinearity after the convolutions; `identity` for none. Default: `activation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conv_activation: Option<Activation>,
    /// Fraction of the linear layers' outputs dropped during training, from 0 to below 1.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub dropout: f64,
}

impl Default for ConvnetConfig {
    fn default() -> Self {
        ConvnetConfig {
            channels: vec![32, 64],
            kernel: Extent::Both(5),
            padding: Extent::Both(0),
            pool: 2,
            batch_norm: false,
            hidden: vec![128],
            activation: Activation::Relu,
            conv_activation: None,
            dropout: 0.0,
        }
    }
}

/// Returns the network's layers.
pub fn convnet(config: &ConvnetConfig) -> Vec<LayerConfig> {
    let mut layers = Vec::new();
    for (index, &channels) in config.channels.iter().enumerate() {
        block(config, index + 1, channels, &mut layers);
    }
    layers.push(flatten());
    for (index, &width) in config.hidden.iter().enumerate() {
        let number = index + 1;
        layers.push(linear(format!("fc{number}"), Some(width)));
        layers.push(activation(format!("fc{number}_act"), config.activation));
        if config.dropout > 0.0 {
            layers.push(dropout(format!("fc{number}_drop"), config.dropout));
        }
    }
    layers.push(linear(format!("fc{}", config.hidden.len() + 1), None));
    layers
}

fn block(config: &ConvnetConfig, number: usize, channels: usize, layers: &mut Vec<LayerConfig>) {
    let conv = Conv2dConfig {
        kernel: config.kernel,
        padding: config.padding,
        bias: !config.batch_norm,
        ..Conv2dConfig::new(channels, 1)
    };
    layers.push(LayerConfig::named(format!("conv{number}"), conv));
    if config.batch_norm {
        let norm = BatchNormConfig::default();
        layers.push(LayerConfig::named(format!("bn{number}"), norm));
    }
    let function = config.conv_activation.unwrap_or(config.activation);
    if function != Activation::Identity {
        layers.push(activation(format!("conv{number}_act"), function));
    }
    if config.pool > 1 {
        let pool = LayerKind::MaxPool2d(PoolConfig::new(config.pool));
        layers.push(LayerConfig::named(format!("pool{number}"), pool));
    }
}
