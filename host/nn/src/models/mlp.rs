//! The multi-layer perceptron.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{activation, dropout, flatten, linear};
use crate::{Activation, EmbedCategoriesConfig, Inputs, LayerConfig, Signal};

/// A multi-layer perceptron: linear layers `fc1`, `fc2`, … with a nonlinearity between them. Inputs
/// of any shape are flattened, categories to embed replaced by the vectors of a layer `embed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MlpConfig {
    /// Widths of the hidden layers, first to last; empty for a linear model.
    #[schemars(inner(range(min = 1)))]
    pub hidden: Vec<usize>,
    /// Nonlinearity between the layers.
    pub activation: Activation,
    /// Fraction of the hidden layers' outputs dropped during training, from 0 to below 1.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub dropout: f64,
    /// Length of the vectors of categories in the columns of `data.embed`. Default: by their number, as in
    /// `embed-categories`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub embedding_width: Option<usize>,
}

impl Default for MlpConfig {
    fn default() -> Self {
        MlpConfig {
            hidden: vec![128],
            activation: Activation::Relu,
            dropout: 0.0,
            embedding_width: None,
        }
    }
}

/// Returns the perceptron's layers, for samples like `input`.
pub fn mlp(config: &MlpConfig, input: &Signal) -> Vec<LayerConfig> {
    let mut layers = Vec::new();
    if matches!(input.content, Inputs::Columns(_)) {
        let (width, init) = (config.embedding_width, None);
        layers.push(LayerConfig::named(
            "embed",
            EmbedCategoriesConfig { width, init },
        ));
    } else if input.shape.len() != 1 {
        layers.push(flatten());
    }
    for (index, &width) in config.hidden.iter().enumerate() {
        let number = index + 1;
        layers.push(linear(format!("fc{number}"), Some(width)));
        layers.push(activation(format!("act{number}"), config.activation));
        if config.dropout > 0.0 {
            layers.push(dropout(format!("drop{number}"), config.dropout));
        }
    }
    layers.push(linear(format!("fc{}", config.hidden.len() + 1), None));
    layers
}
