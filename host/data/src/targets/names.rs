//! Serialised form of targets: their kind with their names, as `{"classes": ["cat", "dog"]}`.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use sconce_nn::TokenTargets;

use crate::Targets;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoredTargets {
    Classes(Vec<String>),
    ClassesPerPosition(Vec<String>),
    /// Size of the vocabulary, and whether targets are masked.
    TokensPerPosition(usize, bool),
    Numbers(Vec<String>),
    None,
}

pub(crate) fn serialize<S: Serializer>(
    targets: &Targets,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let stored = match targets.clone() {
        Targets::Class(names) => StoredTargets::Classes(names),
        Targets::ClassPerPosition(names) => StoredTargets::ClassesPerPosition(names),
        Targets::TokenPerPosition(tokens) => {
            StoredTargets::TokensPerPosition(tokens.vocabulary, tokens.are_masked)
        }
        Targets::Numbers(names) => StoredTargets::Numbers(names),
        Targets::None => StoredTargets::None,
    };
    stored.serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Targets, D::Error> {
    let targets = match StoredTargets::deserialize(deserializer)? {
        StoredTargets::Classes(names) => Targets::Class(names),
        StoredTargets::ClassesPerPosition(names) => Targets::ClassPerPosition(names),
        StoredTargets::TokensPerPosition(vocabulary, are_masked) => {
            Targets::TokenPerPosition(TokenTargets {
                vocabulary,
                are_masked,
            })
        }
        StoredTargets::Numbers(names) => Targets::Numbers(names),
        StoredTargets::None => return Ok(Targets::None),
    };
    if targets.outputs() == 0 {
        return Err(D::Error::custom("targets need at least one name"));
    }
    Ok(targets)
}
