//! `sconce.values/1`: values and tensors that hooks publish, and extra entries of checkpoints.

use std::ffi::c_void;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Extension, TensorAbi};
use crate::abi::{ErrorAbi, TextAbi};

/// Function table of `sconce.values/1`. Frozen; the set of lifetimes ([`Keep`]) is open.
///
/// Tensors are read back through `sconce.tensors/1`.
#[repr(C)]
#[derive(Debug)]
pub struct ValuesTable {
    /// Sets the value of this name, as JSON, with the [`Keep`] of this number.
    pub set: unsafe extern "C" fn(
        context: *const c_void,
        keep: u32,
        name: TextAbi,
        json: TextAbi,
        error: *mut ErrorAbi,
    ) -> u32,
    /// Sets the tensor of this name; its elements must be contiguous and are copied.
    pub set_tensor: unsafe extern "C" fn(
        context: *const c_void,
        keep: u32,
        name: TextAbi,
        tensor: *const TensorAbi,
        error: *mut ErrorAbi,
    ) -> u32,
    /// The value of this name as JSON, valid until a value of this name is set again. `keep` only
    /// distinguishes the checkpoint's entries from all others.
    pub get: unsafe extern "C" fn(
        context: *const c_void,
        keep: u32,
        name: TextAbi,
        json: *mut TextAbi,
    ) -> u32,
    /// Removes the value or tensor of this name.
    pub remove:
        unsafe extern "C" fn(context: *const c_void, name: TextAbi, error: *mut ErrorAbi) -> u32,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for ValuesTable {
    const ID: &'static str = "sconce.values/1";
}

impl ValuesTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
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
