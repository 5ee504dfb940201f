//! The kind `transformers` in the manifest.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use sconce_base::regular_file::read_at_most;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::families;
use super::family::FamilyNames;
use super::keys::Keys;
use super::terms::{Head, Shapes, TransformersError};
use crate::{LayerConfig, Signal, Targets};

/// Most bytes of a `config.json`: labels of a hundred thousand classes fit.
const MOST_BYTES: u64 = 1 << 24;

/// A model of `transformers`, described by its own `config.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransformersConfig {
    /// The model's `config.json`: the file, the directory it is in, or the object itself. Families: `gpt2`, `llama`, `mistral`, `qwen2`,
    /// `qwen3`, `bert`, `vit`, `resnet`, `convnext`.
    pub config: ConfigSource,
    /// What the model ends with. Default: by the data's targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Head>,
    /// Whether the blocks' activations are recomputed in the backward pass instead of kept for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recompute: bool,
}

/// A `config.json`, or where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ConfigSource {
    /// The file, or the directory that it is in.
    File(PathBuf),
    /// The object itself.
    Object(Map<String, Value>),
}

impl TransformersConfig {
    /// Reads the file that `config` names, relative to `base`, and puts its object in the name's place: what is recorded of a run
    /// describes the model by itself.
    ///
    /// # Errors
    ///
    /// If it can't be read, or is no JSON object.
    pub fn read(&mut self, base: &Path) -> Result<(), TransformersError> {
        let ConfigSource::File(path) = &self.config else {
            return Ok(());
        };
        let mut path = base.join(path);
        if path.is_dir() {
            path.push("config.json");
        }
        let bytes = match read_at_most(&path, MOST_BYTES) {
            Ok(bytes) => bytes,
            Err(source) => return Err(TransformersError::Unreadable { path, source }),
        };
        match serde_json::from_slice(&bytes) {
            Ok(object) => self.config = ConfigSource::Object(object),
            Err(error) => {
                let reason = error.to_string();
                return Err(TransformersError::NoObject { path, reason });
            }
        }
        Ok(())
    }

    pub(super) fn values(&self) -> Result<&Map<String, Value>, TransformersError> {
        match &self.config {
            ConfigSource::Object(values) => Ok(values),
            ConfigSource::File(path) => Err(TransformersError::NotRead(path.clone())),
        }
    }

    /// Returns the model's layers, for samples like `input` and targets like `targets`.
    ///
    /// # Errors
    ///
    /// If the family or a value is not one that can be built, or the samples are not what the model takes.
    pub fn layers(
        &self,
        input: &Signal,
        targets: &Targets,
    ) -> Result<Vec<LayerConfig>, TransformersError> {
        let values = self.values()?;
        let family = families::of(values)?;
        family.check(values)?;
        let shapes = Shapes {
            input,
            head: self.head.unwrap_or_else(|| Head::for_targets(targets)),
            recompute: self.recompute,
        };
        (family.layers)(&Keys::new(family.used, values), &shapes)
    }

    /// Returns a warning for each key of the `config.json` that nothing is known of: whether it changes the model is unclear.
    pub fn warnings(&self) -> Vec<String> {
        let Ok(values) = self.values() else {
            return Vec::new();
        };
        let Ok(family) = families::of(values) else {
            return Vec::new();
        };
        let near = |key: &str| match sconce_base::nearest::nearest(key, family.used_and_refused()) {
            Some(near) => format!("; is `{near}` meant?"),
            None => String::new(),
        };
        let warning = |key: &str| {
            format!(
                "`{key}` of the model's `config.json` is not a key that is known of `{}`, and has no effect{}",
                family.model_type,
                near(key)
            )
        };
        family.unknown(values).map(warning).collect()
    }

    /// Patterns of the modules that PEFT gives adapters in models of the family; none if it has none for it.
    pub fn adapted_modules(&self) -> &'static [&'static str] {
        let family = self.values().and_then(families::of);
        match family.map(|family| family.model_type) {
            Ok("gpt2") => &["*.c_attn"],
            Ok("llama" | "mistral" | "qwen2" | "qwen3") => &["*.q_proj", "*.v_proj"],
            Ok("bert" | "vit") => &["*.query", "*.value"],
            _ => &[],
        }
    }

    /// Returns the names in files of the family's weights; none that differ from the model's if the family is unknown.
    pub fn names(&self) -> FamilyNames {
        let family = self
            .values()
            .and_then(|values| Ok((families::of(values)?, values)));
        match family {
            Ok((family, values)) => (family.names)(&Keys::new(family.used, values)),
            Err(_) => FamilyNames::default(),
        }
    }
}
