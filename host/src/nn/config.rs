//! Models in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Activation, Mlp, Model};
use crate::parameters::{self, Parameters};

/// The model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ModelConfig {
    /// A multi-layer perceptron: linear layers with a nonlinearity between them. Inputs of any
    /// shape are flattened.
    Mlp {
        /// The widths of the hidden layers, first to last; empty for a linear model.
        #[serde(default = "default_hidden")]
        #[schemars(inner(range(min = 1)))]
        hidden: Vec<usize>,
        /// The nonlinearity between the layers.
        #[serde(default)]
        activation: Activation,
    },
}

fn default_hidden() -> Vec<usize> {
    vec![128]
}

/// Why a model can't be built.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Its parameters can't be registered.
    #[error(transparent)]
    Parameters(#[from] parameters::Error),
    /// A layer without outputs.
    #[error("`hidden[{0}]` is 0: a layer needs at least one output")]
    EmptyLayer(usize),
    /// Data without inputs or classes.
    #[error("the data has samples of shape {shape:?} and {classes} classes: nothing to learn from")]
    EmptyData {
        /// The shape of a sample.
        shape: Vec<usize>,
        /// How many classes.
        classes: usize,
    },
}

impl ModelConfig {
    /// Builds the model for samples of `shape` and so many classes; its parameters are registered
    /// in `parameters`.
    pub fn build(
        &self,
        parameters: &mut Parameters,
        shape: &[usize],
        classes: usize,
    ) -> Result<Box<dyn Model>, ModelError> {
        let inputs: usize = shape.iter().product();
        if inputs == 0 || classes == 0 {
            return Err(ModelError::EmptyData {
                shape: shape.to_vec(),
                classes,
            });
        }
        match self {
            ModelConfig::Mlp { hidden, activation } => {
                if let Some(empty) = hidden.iter().position(|&width| width == 0) {
                    return Err(ModelError::EmptyLayer(empty));
                }
                let mlp = Mlp::new(parameters, inputs, hidden, classes, *activation)?;
                Ok(Box::new(mlp))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_the_schemas_default() {
        let config: ModelConfig = serde_json::from_str(r#"{"kind": "mlp"}"#).expect("a config");
        let expected = ModelConfig::Mlp {
            hidden: vec![128],
            activation: Activation::Relu,
        };
        assert_eq!(config, expected);
        let schema = serde_json::to_value(schemars::schema_for!(ModelConfig)).expect("a schema");
        let properties = &schema["oneOf"][0]["properties"];
        assert_eq!(properties["hidden"]["default"], serde_json::json!([128]));
        assert_eq!(properties["activation"]["default"], "relu");
        for name in ["hidden", "activation"] {
            assert!(properties[name]["description"].is_string(), "{name}");
        }
    }

    #[test]
    fn unknown_keys_and_empty_layers_are_refused() {
        let unknown = serde_json::from_str::<ModelConfig>(r#"{"kind": "mlp", "width": 3}"#);
        assert!(
            unknown
                .expect_err("unknown")
                .to_string()
                .contains("`width`")
        );
        let config: ModelConfig =
            serde_json::from_str(r#"{"kind": "mlp", "hidden": [4, 0]}"#).expect("a config");
        let mut parameters = Parameters::new(1, candle_core::DType::F32, &candle_core::Device::Cpu);
        let error = config.build(&mut parameters, &[2], 3).map(|_| ());
        let error = error.expect_err("an empty layer").to_string();
        assert!(error.contains("`hidden[1]` is 0"), "{error}");
    }
}
