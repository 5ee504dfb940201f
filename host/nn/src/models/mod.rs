//! Models in the manifest: ready-made ones, as lists of layers, and such lists themselves.

mod config;
mod convnet;
mod gpt;
mod mlp;
mod resnet;
mod transformer;
mod transformers;
mod vit;

pub use config::{ModelConfig, ModelError, SequentialConfig};
pub use convnet::{ConvnetConfig, convnet};
pub use gpt::{GptConfig, gpt};
pub use mlp::{MlpConfig, mlp};
pub use resnet::{ResidualBlock, ResnetConfig, Stem, resnet};
pub use transformer::{Norm, Positions};
pub use transformers::{
    ConfigSource, ExportedConfig, FamilyNames, Head, TiedName, TokenRoles, TransformersConfig,
    TransformersError,
};
pub use vit::{VitConfig, vit};

use crate::{
    Activation, ActivationConfig, DropoutConfig, LayerConfig, LayerKind, LinearConfig, Plain,
};

fn linear(name: impl Into<String>, outputs: Option<usize>) -> LayerConfig {
    LayerConfig::named(
        name,
        LinearConfig {
            outputs,
            ..LinearConfig::default()
        },
    )
}

fn activation(name: impl Into<String>, function: Activation) -> LayerConfig {
    LayerConfig::named(name, ActivationConfig { function })
}

fn flatten() -> LayerConfig {
    LayerConfig::new(LayerKind::Flatten(Plain {}))
}

fn dropout(name: impl Into<String>, share: f64) -> LayerConfig {
    LayerConfig::named(name, DropoutConfig { share })
}
