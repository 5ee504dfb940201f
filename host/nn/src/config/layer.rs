//! Layers in the manifest: a name and a kind with its options.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::kind::LayerKind;

/// A layer of a `sequential` model. Its input shape follows from the layer before it.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerConfig {
    /// Prefix of its parameters' names, and the module's name for hooks. Default: its kind and a number; kinds that only
    /// rearrange elements are no modules without a name.
    pub name: Option<String>,
    /// Kind and options.
    pub kind: LayerKind,
}

impl LayerConfig {
    /// A layer without a name.
    pub fn new(kind: impl Into<LayerKind>) -> LayerConfig {
        LayerConfig {
            name: None,
            kind: kind.into(),
        }
    }

    /// A layer of this name.
    pub fn named(name: impl Into<String>, kind: impl Into<LayerKind>) -> LayerConfig {
        LayerConfig {
            name: Some(name.into()),
            kind: kind.into(),
        }
    }

    /// Returns the layer's kind in the manifest.
    pub fn kind(&self) -> &'static str {
        self.kind.name()
    }

    /// Returns the name given in the manifest.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl Serialize for LayerConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error as _;
        let options = serde_json::to_value(&self.kind).map_err(S::Error::custom)?;
        let mut layer = Map::new();
        for (key, value) in options.as_object().into_iter().flatten() {
            layer.insert(key.clone(), value.clone());
            if key == "kind"
                && let Some(name) = &self.name
            {
                layer.insert("name".to_owned(), name.clone().into());
            }
        }
        layer.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LayerConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LayerConfig, D::Error> {
        let mut layer = Map::deserialize(deserializer)?;
        let name = layer.remove("name").unwrap_or(Value::Null);
        let name = Option::deserialize(name).map_err(D::Error::custom)?;
        let kind = LayerKind::deserialize(Value::Object(layer)).map_err(D::Error::custom)?;
        Ok(LayerConfig { name, kind })
    }
}

/// The schema of the kinds, each with the name as one more property.
impl JsonSchema for LayerConfig {
    fn schema_name() -> Cow<'static, str> {
        "LayerConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = LayerKind::json_schema(generator);
        let name = json_schema!({
            "description": "Name of the layer: the prefix of its parameters' names, and the module's for hooks. \
                Default: its kind and a number; kinds that only rearrange elements are no modules without a name.",
            "type": ["string", "null"],
        });
        let kinds = schema.get_mut("oneOf").and_then(Value::as_array_mut);
        for kind in kinds.into_iter().flatten() {
            let properties = kind.get_mut("properties").and_then(Value::as_object_mut);
            if let Some(properties) = properties {
                properties.insert("name".to_owned(), name.clone().to_value());
            }
        }
        schema.insert(
            "description".to_owned(),
            "A layer of a `sequential` model. Its input shape follows from the layer before it."
                .into(),
        );
        schema
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_layer_is_read_and_written_with_its_name() {
        let written = json!({"kind": "repeat", "name": "h", "count": 2, "layers": [
            {"kind": "linear", "name": "up", "outputs": 3, "bias": false},
            {"kind": "relu"}
        ]});
        let layer: LayerConfig = serde_json::from_value(written.clone()).expect("a layer");
        assert_eq!((layer.name(), layer.kind()), (Some("h"), "repeat"));
        assert_eq!(serde_json::to_value(&layer).expect("JSON"), written);
    }

    #[test]
    fn unknown_keys_and_names_that_are_no_text_are_refused() {
        for (layer, part) in [
            (json!({"kind": "relu", "function": "gelu"}), "`function`"),
            (json!({"kind": "linear", "output": 3}), "`output`"),
            (json!({"kind": "linear", "name": 3}), "string"),
            (json!({"kind": "reluu"}), "`reluu`"),
        ] {
            let error = serde_json::from_value::<LayerConfig>(layer).expect_err("refused");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn each_kind_of_the_schema_can_have_a_name() {
        let schema = schemars::schema_for!(LayerConfig).to_value();
        let kinds = schema["oneOf"].as_array().expect("kinds");
        assert!(kinds.len() > 30, "{}", kinds.len());
        for kind in kinds {
            let properties = &kind["properties"];
            assert!(properties["name"].is_object(), "{kind}");
            assert!(properties["kind"]["const"].is_string(), "{kind}");
            assert!(kind["description"].is_string(), "{kind}");
        }
    }
}
