//! All families, and which of them a `config.json` is of.

use serde_json::{Map, Value};

use super::family::Family;
use super::terms::TransformersError;
use super::{bert, convnext, gpt2, llama, resnet, vit};

/// All families.
static FAMILIES: &[&Family] = &[
    &gpt2::GPT2,
    &llama::LLAMA,
    &llama::MISTRAL,
    &llama::QWEN2,
    &llama::QWEN3,
    &bert::BERT,
    &vit::VIT,
    &resnet::RESNET,
    &convnext::CONVNEXT,
];

/// The family of a `config.json`.
pub(super) fn of(values: &Map<String, Value>) -> Result<&'static Family, TransformersError> {
    let known = || {
        FAMILIES
            .iter()
            .map(|family| family.model_type)
            .collect::<Vec<_>>()
    };
    let Some(found) = values.get("model_type").and_then(Value::as_str) else {
        return Err(TransformersError::NoFamily {
            known: known().join("`, `"),
        });
    };
    let family = FAMILIES.iter().find(|family| family.model_type == found);
    family
        .copied()
        .ok_or_else(|| TransformersError::UnknownFamily {
            found: found.chars().take(60).collect(),
            known: known().join("`, `"),
        })
}
