//! A loss as a manifest has it: a kind, or an object with its options.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::json;

use super::LossConfig;

/// A loss: `"mse"`, or `{"kind": "huber", "delta": 2}`.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenLoss(pub LossConfig);

/// All kinds; each can be written as a string, without options.
const KINDS: [&str; 6] = [
    "cross-entropy",
    "binary-cross-entropy",
    "mse",
    "l1",
    "huber",
    "given",
];

impl WrittenLoss {
    /// Reads an optional key of a manifest.
    ///
    /// # Errors
    ///
    /// If it is not a loss.
    pub fn optional<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<LossConfig>, D::Error> {
        let written: Option<WrittenLoss> = Option::deserialize(deserializer)?;
        Ok(written.map(|WrittenLoss(loss)| loss))
    }
}

impl JsonSchema for WrittenLoss {
    fn schema_name() -> Cow<'static, str> {
        "Loss".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut object = generator.subschema_for::<LossConfig>();
        // Also said here, so that a schema error for a string is not reported against the object form.
        object.insert("type".to_owned(), json!("object"));
        let kind = json!({"type": "string", "enum": KINDS, "description": "The loss's kind."});
        let mut schema = Schema::default();
        schema.insert("anyOf".to_owned(), json!([kind, object]));
        schema
    }
}

impl<'de> Deserialize<'de> for WrittenLoss {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KindOrObject)
    }
}

struct KindOrObject;

impl<'de> Visitor<'de> for KindOrObject {
    type Value = WrittenLoss;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a loss's kind or an object")
    }

    fn visit_str<E: serde::de::Error>(self, kind: &str) -> Result<Self::Value, E> {
        let object = MapDeserializer::new(std::iter::once(("kind", kind)));
        LossConfig::deserialize(object).map(WrittenLoss)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        LossConfig::deserialize(MapAccessDeserializer::new(map)).map(WrittenLoss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_may_be_alone_or_with_options() {
        for kind in KINDS {
            let alone: WrittenLoss = serde_json::from_value(json!(kind)).expect(kind);
            let object = serde_json::from_value(json!({"kind": kind})).expect(kind);
            assert_eq!(alone, object);
            let again = serde_json::to_value(&alone.0).expect("JSON");
            assert_eq!(again["kind"], kind);
        }
        assert!(serde_json::from_value::<WrittenLoss>(json!("tea")).is_err());
        assert!(serde_json::from_value::<WrittenLoss>(json!(1)).is_err());
    }
}
