//! Models in the manifest.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ConvnetConfig, FamilyNames, GptConfig, MlpConfig, ResnetConfig, TransformersConfig,
    TransformersError, VitConfig, convnet, gpt, mlp, resnet, vit,
};
use crate::config::{LayerConfig, LayerKind};
use crate::parameters::Parameters;
use crate::{Inputs, LayerError, Network, Signal, Targets, build};

/// Model to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ModelConfig {
    /// A multi-layer perceptron.
    Mlp(MlpConfig),
    /// A convolutional network for images.
    Convnet(ConvnetConfig),
    /// A residual network for images.
    Resnet(ResnetConfig),
    /// A vision transformer for images.
    Vit(VitConfig),
    /// A decoder-only transformer for text.
    Gpt(GptConfig),
    /// A model of `transformers`, described by its own `config.json`.
    Transformers(TransformersConfig),
    /// A list of layers that run in order.
    Sequential(SequentialConfig),
}

/// A list of layers that run in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SequentialConfig {
    /// Layers, from the data's inputs to the outputs that its targets need.
    #[schemars(length(min = 1))]
    pub layers: Vec<LayerConfig>,
}

/// Why a model can't be built.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A layer does not fit.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The `config.json` of a model of `transformers` describes none that can be built.
    #[error(transparent)]
    Transformers(#[from] TransformersError),
    /// A hidden layer has no outputs; its index.
    #[error("`hidden[{0}]` is 0: a layer needs at least one output")]
    EmptyLayer(usize),
    /// The data has no inputs or no classes.
    #[error("the data has samples of shape {shape:?} and {outputs} outputs: nothing to learn from")]
    EmptyData {
        /// The shape of a sample.
        shape: Vec<usize>,
        /// Number of classes or values to learn.
        outputs: usize,
    },
}

impl ModelConfig {
    /// Returns the layers of the model, for samples like `input` and targets like `targets`.
    ///
    /// # Errors
    ///
    /// If a `config.json` describes no model that can be built.
    pub fn layers(
        &self,
        input: &Signal,
        targets: &Targets,
    ) -> Result<Vec<LayerConfig>, TransformersError> {
        Ok(match self {
            ModelConfig::Mlp(config) => mlp(config, input),
            ModelConfig::Convnet(config) => convnet(config),
            ModelConfig::Resnet(config) => resnet(config),
            ModelConfig::Vit(config) => vit(config),
            ModelConfig::Gpt(config) => gpt(config),
            ModelConfig::Transformers(config) => config.layers(input, targets)?,
            ModelConfig::Sequential(config) => config.layers.clone(),
        })
    }

    /// Reads the files that the model's description names, relative to `base`, into it.
    ///
    /// # Errors
    ///
    /// If one can't be read.
    pub fn read_files(&mut self, base: &Path) -> Result<(), TransformersError> {
        match self {
            ModelConfig::Transformers(config) => config.read(base),
            _ => Ok(()),
        }
    }

    /// Returns what is doubtful in the model's description.
    pub fn warnings(&self) -> Vec<String> {
        match self {
            ModelConfig::Transformers(config) => config.warnings(),
            _ => Vec::new(),
        }
    }

    /// Returns the names in files of such models' weights, where they differ from the parameters' names.
    pub fn family_names(&self) -> FamilyNames {
        match self {
            ModelConfig::Transformers(config) => config.names(),
            _ => FamilyNames::default(),
        }
    }

    /// Returns the name of the layer whose outputs follow from the data's targets: the model's head, which pretrained
    /// weights may lack. None where it has no name of its own, or the family's names say it ([`FamilyNames::head`]).
    pub fn head(&self, input: &Signal, targets: &Targets) -> Option<String> {
        if matches!(self, ModelConfig::Transformers(_)) {
            return None;
        }
        let layers = self.layers(input, targets).ok()?;
        let mut ends = layers.into_iter().rev();
        ends.find_map(|layer| match layer.kind {
            LayerKind::Linear(linear) => Some(match linear.outputs {
                None => layer.name,
                Some(_) => None,
            }),
            _ => None,
        })?
    }

    /// Patterns of the modules that adapters are usual for in models of this kind, as PEFT has them; none where nothing is.
    pub fn adapted_modules(&self) -> &'static [&'static str] {
        match self {
            // One projection to queries, keys and values.
            ModelConfig::Gpt(_) | ModelConfig::Vit(_) => &["*.qkv"],
            ModelConfig::Transformers(config) => config.adapted_modules(),
            _ => &[],
        }
    }

    /// Whether an error's path into the layers exists in the manifest.
    pub fn has_layers_of_its_own(&self) -> bool {
        matches!(self, ModelConfig::Sequential(_))
    }

    /// Explains which models fit samples like `input` if this one does not.
    pub fn meant_for(&self, input: &Signal) -> Option<String> {
        let (has, models): (String, &[&str]) = match (&input.content, input.shape.len()) {
            (Inputs::Tokens(_), _) => ("tokens of text".to_owned(), &["gpt"]),
            (Inputs::Numbers, 3) => (
                format!("images of shape {:?}", input.shape),
                &["mlp", "convnet", "resnet", "vit"],
            ),
            (Inputs::Columns(_), _) => ("a table's rows".to_owned(), &["mlp"]),
            (Inputs::Numbers, _) => (format!("samples of shape {:?}", input.shape), &["mlp"]),
        };
        let (kind, wants) = match self {
            ModelConfig::Mlp(_) => ("mlp", "numbers"),
            ModelConfig::Convnet(_) => ("convnet", "images"),
            ModelConfig::Resnet(_) => ("resnet", "images"),
            ModelConfig::Vit(_) => ("vit", "images"),
            ModelConfig::Gpt(_) => ("gpt", "tokens of text"),
            ModelConfig::Transformers(_) | ModelConfig::Sequential(_) => return None,
        };
        (!models.contains(&kind)).then(|| {
            format!(
                "`{kind}` is for {wants}, the data has {has}: take `{}`, or layers of your own in a `sequential`",
                models.join("`, `")
            )
        })
    }

    /// Builds the model for samples like `input` and for the targets. Registers its parameters in
    /// `parameters`.
    pub fn build(
        &self,
        parameters: &mut Parameters,
        input: &Signal,
        targets: &Targets,
    ) -> Result<Network, ModelError> {
        let needs_outputs = !matches!(targets, Targets::None);
        if input.count() == 0 || needs_outputs && targets.outputs() == 0 {
            return Err(ModelError::EmptyData {
                shape: input.shape.clone(),
                outputs: targets.outputs(),
            });
        }
        if let ModelConfig::Mlp(MlpConfig { hidden, .. })
        | ModelConfig::Convnet(ConvnetConfig { hidden, .. }) = self
            && let Some(empty) = hidden.iter().position(|&width| width == 0)
        {
            return Err(ModelError::EmptyLayer(empty));
        }
        Ok(build(
            &self.layers(input, targets)?,
            parameters,
            input,
            targets,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Activation;

    fn classes(count: usize) -> Targets {
        Targets::Class((0..count).map(|class| class.to_string()).collect())
    }

    #[test]
    fn what_is_left_out_has_the_schemas_default() {
        let config: ModelConfig = serde_json::from_str(r#"{"kind": "mlp"}"#).expect("a config");
        let expected = ModelConfig::Mlp(MlpConfig {
            hidden: vec![128],
            activation: Activation::Relu,
            dropout: 0.0,
            embedding_width: None,
        });
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
    fn the_head_is_what_the_targets_determine() {
        let image = Signal::numbers([1, 8, 8]);
        for (model, head) in [
            (r#"{"kind": "resnet"}"#, Some("fc")),
            (r#"{"kind": "vit", "patch": 4}"#, Some("head")),
            (
                r#"{"kind": "sequential", "layers": [{"kind": "flatten"}, {"kind": "linear", "name": "out"}]}"#,
                Some("out"),
            ),
            (
                r#"{"kind": "sequential", "layers": [{"kind": "flatten"}, {"kind": "linear", "name": "out", "outputs": 3}]}"#,
                None,
            ),
            (
                r#"{"kind": "sequential", "layers": [{"kind": "flatten"}, {"kind": "linear"}]}"#,
                None,
            ),
        ] {
            let config: ModelConfig = serde_json::from_str(model).expect(model);
            assert_eq!(config.head(&image, &classes(3)).as_deref(), head, "{model}");
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
        let mut parameters =
            Parameters::new(1, candle_core::DType::F32, &sconce_ops::device::for_tests());
        let error = config
            .build(&mut parameters, &Signal::numbers([2]), &classes(3))
            .map(|_| ());
        let error = error.expect_err("an empty layer").to_string();
        assert!(error.contains("`hidden[1]` is 0"), "{error}");
    }
}
