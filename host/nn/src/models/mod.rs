//! Models in the manifest: ready-made ones, as lists of layers, and such lists themselves.

mod config;
mod convnet;
mod gpt;
mod mlp;
mod resnet;
mod transformer;
mod vit;

pub use config::{ModelConfig, ModelError, SequentialConfig};
pub use convnet::{ConvnetConfig, convnet};
pub use gpt::{GptConfig, gpt};
pub use mlp::{MlpConfig, mlp};
pub use resnet::{ResnetConfig, Stem, resnet};
pub use transformer::{Norm, Positions};
pub use vit::{VitConfig, vit};

use super::{Activation, LayerConfig};

fn linear(name: impl Into<String>, outputs: Option<usize>) -> LayerConfig {
    LayerConfig::Linear {
        name: Some(name.into()),
        outputs,
        bias: true,
        init: None,
    }
}

fn activation(name: impl Into<String>, function: Activation) -> LayerConfig {
    LayerConfig::Activation {
        name: Some(name.into()),
        function,
    }
}

fn flatten() -> LayerConfig {
    LayerConfig::Flatten { name: None }
}

fn dropout(name: impl Into<String>, share: f64) -> LayerConfig {
    LayerConfig::Dropout {
        name: Some(name.into()),
        share,
    }
}
