//! The vocabulary of tokens in the manifest: its size, or the tokenizer that has it.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where the size of a vocabulary comes from: `50257`, or `"tokenizer.json"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VocabularySource {
    /// Number of tokens.
    Size(usize),
    /// Path of a tokenizer.
    Tokenizer(PathBuf),
}

/// Largest vocabulary: an id below it leaves room for marks in 32 bits.
pub(super) const MOST: usize = 1 << 24;

impl Serialize for VocabularySource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            VocabularySource::Size(size) => size.serialize(serializer),
            VocabularySource::Tokenizer(path) => path.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for VocabularySource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrPath)
    }
}

struct NumberOrPath;

impl Visitor<'_> for NumberOrPath {
    type Value = VocabularySource;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of tokens, or the path of a tokenizer.json")
    }

    fn visit_u64<E: serde::de::Error>(self, size: u64) -> Result<Self::Value, E> {
        let size = usize::try_from(size).map_err(E::custom)?;
        Ok(VocabularySource::Size(size))
    }

    fn visit_str<E: serde::de::Error>(self, path: &str) -> Result<Self::Value, E> {
        Ok(VocabularySource::Tokenizer(path.into()))
    }
}

impl JsonSchema for VocabularySource {
    fn schema_name() -> Cow<'static, str> {
        "VocabularySource".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MOST, "description": "Number of tokens."},
                {"type": "string", "description": "Path of a tokenizer.json."},
            ]
        })
    }
}
