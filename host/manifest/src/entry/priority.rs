//! Priorities in the manifest: a level's name or a number.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use sconce_plugin_api::Priority;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A priority as the manifest writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrittenPriority(pub Priority);

impl JsonSchema for WrittenPriority {
    fn schema_name() -> Cow<'static, str> {
        "Priority".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Priority::NAMED.iter().map(|(name, _)| *name).collect();
        json_schema!({
            "anyOf": [
                {"type": "string", "enum": names},
                {"type": "integer", "format": "uint8", "minimum": 0, "maximum": Priority::MAX}
            ]
        })
    }
}

impl Serialize for WrittenPriority {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = self.0.to_string();
        match Priority::from_name(&written) {
            Some(_) => serializer.serialize_str(&written),
            None => serializer.serialize_u8(self.0.value()),
        }
    }
}

impl<'de> Deserialize<'de> for WrittenPriority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PriorityVisitor)
    }
}

struct PriorityVisitor;

impl Visitor<'_> for PriorityVisitor {
    type Value = WrittenPriority;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a priority: HIGHEST to LOWEST, or a number from 0 to 100")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let priority = Priority::from_name(name);
        priority
            .map(WrittenPriority)
            .ok_or_else(|| E::custom(format!("no priority is called `{name}`")))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        let priority = u8::try_from(number).ok().and_then(Priority::new);
        priority
            .map(WrittenPriority)
            .ok_or_else(|| E::custom(format!("a priority is at most 100, found {number}")))
    }
}
