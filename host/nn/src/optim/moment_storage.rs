//! How moments are stored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Type in which an optimizer's moments are kept between updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MomentStorage {
    /// That of the parameters.
    #[default]
    F32,
    /// 8 significant bits: half the memory, and half of its share of a checkpoint. An update computes in the parameters' type, and rounds
    /// what it leaves up or down at random, by words of the seed, the step, the parameter and the element. CPU only.
    Bf16,
}

impl MomentStorage {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
    pub(super) fn is_f32(&self) -> bool {
        *self == MomentStorage::F32
    }
}
