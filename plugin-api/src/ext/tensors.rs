//! `sconce.tensors/1`: parameters, gradients and the batch, as they lie in the host's memory.
//!
//! A tensor crosses as a borrowed view with the codes of `DLPack` (`dlpack.h` 1.1), so that a
//! plugin can hand it to whatever reads that. Nothing is copied.

use std::ffi::c_void;
use std::ptr;

use super::Extension;
use crate::abi::{ErrorAbi, TextAbi};

/// A tensor, borrowed for the call. Frozen.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TensorAbi {
    /// The first element.
    pub data: *mut c_void,
    /// How many bytes from `data` on belong to the tensor, gaps between its elements included.
    pub byte_length: u64,
    /// The size of each dimension; `dimensions` numbers.
    pub shape: *const i64,
    /// How far apart neighbours are in each dimension, in elements; never negative.
    pub strides: *const i64,
    /// The tensor's name; lives as long as the call.
    pub name: TextAbi,
    /// [`TensorAbi::WRITABLE`] and so on; unknown bits are passed over.
    pub flags: u64,
    /// How many dimensions there are.
    pub dimensions: u32,
    /// `DLPack`'s device type: 1 is the CPU.
    pub device_type: i32,
    /// Which of several such devices.
    pub device_id: i32,
    /// `DLPack`'s type code: 0 signed, 1 unsigned, 2 float, 4 bfloat.
    pub type_code: u8,
    /// The bits of an element.
    pub type_bits: u8,
    /// The lanes of an element; always 1.
    pub type_lanes: u16,
}

impl TensorAbi {
    /// In `flags`: the elements may be written to.
    pub const WRITABLE: u64 = 1;

    /// In `flags`: part of the model's state, but not learned from gradients.
    pub const BUFFER: u64 = 2;

    /// No tensor.
    pub const EMPTY: TensorAbi = TensorAbi {
        data: ptr::null_mut(),
        byte_length: 0,
        shape: ptr::null(),
        strides: ptr::null(),
        name: TextAbi::EMPTY,
        flags: 0,
        dimensions: 0,
        device_type: 1,
        device_id: 0,
        type_code: 2,
        type_bits: 32,
        type_lanes: 1,
    };
}

/// The table of `sconce.tensors/1`. Frozen; the set of collections is open.
#[repr(C)]
#[derive(Debug)]
pub struct TensorsTable {
    /// How many places the [`Collection`] of this number has at this moment. Some may be empty.
    pub count: unsafe extern "C" fn(context: *const c_void, collection: u32) -> usize,
    /// The tensor at `index`; `writable` is 0 or 1. Answers "not found" for an empty place.
    pub at: unsafe extern "C" fn(
        context: *const c_void,
        collection: u32,
        index: usize,
        writable: u32,
        tensor: *mut TensorAbi,
        error: *mut ErrorAbi,
    ) -> u32,
    /// The index of the tensor of this name.
    pub find: unsafe extern "C" fn(
        context: *const c_void,
        collection: u32,
        name: TextAbi,
        index: *mut usize,
        error: *mut ErrorAbi,
    ) -> u32,
}

// SAFETY: this is the table of that identifier.
unsafe impl Extension for TensorsTable {
    const ID: &'static str = "sconce.tensors/1";
}

impl TensorsTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}

/// The collections of tensors that this version of the API knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u32)]
pub enum Collection {
    /// The model's parameters and buffers, in the order of their registration.
    Parameters = 0,
    /// The parameters' gradients, at the same indices; empty places where there is none.
    Gradients = 1,
    /// The batch: `inputs`, `targets`, `outputs`, `loss`, and what else the task names.
    Batch = 2,
    /// The module of the present call: `input`, `output`, `input_gradient`, `output_gradient`.
    Module = 3,
    /// What hooks have published under names.
    Published = 4,
    /// The extra entries of the checkpoint at hand.
    Checkpoint = 5,
    /// The optimizer's numbers, as `fc1.weight.exp_avg`.
    Optimizer = 6,
}

impl Collection {
    /// All collections of this version of the API, in the order of their numbers.
    pub const ALL: [Collection; 7] = [
        Collection::Parameters,
        Collection::Gradients,
        Collection::Batch,
        Collection::Module,
        Collection::Published,
        Collection::Checkpoint,
        Collection::Optimizer,
    ];

    /// The collection with this number.
    pub fn from_number(number: u32) -> Option<Collection> {
        Collection::ALL.get(number as usize).copied()
    }

    /// How messages call it.
    pub const fn name(self) -> &'static str {
        match self {
            Collection::Parameters => "parameters",
            Collection::Gradients => "gradients",
            Collection::Batch => "the batch",
            Collection::Module => "the module",
            Collection::Published => "the published tensors",
            Collection::Checkpoint => "the checkpoint",
            Collection::Optimizer => "the optimizer's state",
        }
    }
}
