//! `sconce.values/1`: what hooks publish for each other, for the task's loss and for checkpoints.

use std::ffi::c_void;

use super::{Extension, TensorAbi};
use crate::abi::{ErrorAbi, TextAbi};

/// The table of `sconce.values/1`. Frozen; the set of places is open.
///
/// Tensors are read back through `sconce.tensors/1`.
#[repr(C)]
#[derive(Debug)]
pub struct ValuesTable {
    /// Sets the value of this name, a JSON text, in the [`Keep`] of this number.
    pub set: unsafe extern "C" fn(
        context: *const c_void,
        keep: u32,
        name: TextAbi,
        json: TextAbi,
        error: *mut ErrorAbi,
    ) -> u32,
    /// Sets the tensor of this name; its elements stand side by side and are copied.
    pub set_tensor: unsafe extern "C" fn(
        context: *const c_void,
        keep: u32,
        name: TextAbi,
        tensor: *const TensorAbi,
        error: *mut ErrorAbi,
    ) -> u32,
    /// The value of this name as JSON text, which lives until a value of this name is set again;
    /// `keep` tells only the checkpoint's entries from the others.
    pub get: unsafe extern "C" fn(
        context: *const c_void,
        keep: u32,
        name: TextAbi,
        json: *mut TextAbi,
    ) -> u32,
    /// Takes back the value or tensor of this name.
    pub remove:
        unsafe extern "C" fn(context: *const c_void, name: TextAbi, error: *mut ErrorAbi) -> u32,
}

// SAFETY: this is the table of that identifier.
unsafe impl Extension for ValuesTable {
    const ID: &'static str = "sconce.values/1";
}

impl ValuesTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}

/// How long a published value or tensor is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u32)]
pub enum Keep {
    /// To the end of the batch. Tensors of this kind can carry no gradient, but the task's loss may
    /// read them.
    Batch = 0,
    /// Until the next training epoch begins.
    Epoch = 1,
    /// To the end of the run; it goes into checkpoints and comes back with them.
    Run = 2,
    /// An extra entry of the checkpoint that is being saved.
    #[doc(hidden)]
    Checkpoint = 3,
}

impl Keep {
    /// The kind with this number.
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
