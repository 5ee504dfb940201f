//! `sconce.values/1`: values and tensors that hooks publish, and extra entries of checkpoints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{TensorAbi, extension};
use crate::abi::Refusal;

/// Values and tensors that hooks publish, and extra entries of checkpoints; the set of lifetimes ([`Keep`]) is open. Tensors are read
/// back through `sconce.tensors/1`.
#[extension("sconce.values/1")]
pub trait Values {
    /// Sets the value of this name, as JSON, with the [`Keep`] of this number.
    #[wrapped]
    #[changes]
    fn set(&self, keep: u32, name: &str, json: &str) -> Result<(), Refusal>;

    /// Sets the tensor of this name; its elements must be contiguous and are copied.
    ///
    /// # Safety
    ///
    /// What the tensor points to is readable during the call.
    #[local]
    unsafe fn set_tensor(&self, keep: u32, name: &str, tensor: &TensorAbi) -> Result<(), Refusal>;

    /// The value of this name as JSON, valid until a value of this name is set again. `keep` only distinguishes the
    /// checkpoint's entries from all others.
    #[wrapped]
    #[ahead]
    fn get(&self, keep: u32, name: &str) -> Option<&str>;

    /// Removes the value or tensor of this name.
    #[wrapped]
    #[changes]
    fn remove(&self, name: &str) -> Result<(), Refusal>;
}

/// How long a published value or tensor is kept: `batch`, `epoch` or `run` in configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
#[repr(u32)]
pub enum Keep {
    /// Until the end of the batch. The task's loss may read such tensors; no gradient flows through them.
    Batch = 0,
    /// Until the next training epoch begins.
    Epoch = 1,
    /// Until the end of the run; stored in checkpoints and restored from them.
    Run = 2,
    /// An extra entry of the checkpoint that is about to be saved.
    #[doc(hidden)]
    #[serde(skip)]
    Checkpoint = 3,
}

impl Keep {
    /// The kind with this number; `None` if this version of the API doesn't know it.
    pub const fn from_number(number: u32) -> Option<Keep> {
        match number {
            0 => Some(Keep::Batch),
            1 => Some(Keep::Epoch),
            2 => Some(Keep::Run),
            3 => Some(Keep::Checkpoint),
            _ => None,
        }
    }
}
