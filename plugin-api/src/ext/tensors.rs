//! `sconce.tensors/1`: access to parameters, gradients and the batch in the host's memory.
//!
//! A tensor crosses the boundary as a borrowed view with `DLPack`'s type codes (`dlpack.h` 1.1), so that a
//! plugin can pass it to any consumer of `DLPack`. Nothing is copied.

use std::ffi::c_void;
use std::ptr;

use super::extension;
use crate::abi::{Refusal, TextAbi};

/// A tensor view, borrowed for the call. Frozen.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TensorAbi {
    /// Pointer to the first element.
    pub data: *mut c_void,
    /// Number of bytes from `data` on that belong to the tensor, including gaps between its elements.
    pub byte_length: u64,
    /// Size of each dimension; an array of `dimensions` integers.
    pub shape: *const i64,
    /// Stride of each dimension, in elements; never negative. An array of `dimensions` integers.
    pub strides: *const i64,
    /// Name of the tensor; valid for the call.
    pub name: TextAbi,
    /// Bit set of [`TensorAbi::WRITABLE`] and [`TensorAbi::BUFFER`]; unknown bits are ignored.
    pub flags: u64,
    /// Number of dimensions.
    pub dimensions: u32,
    /// `DLPack`'s device type: 1 is the CPU.
    pub device_type: i32,
    /// Index of the device among those of its type.
    pub device_id: i32,
    /// `DLPack`'s type code: 0 signed, 1 unsigned, 2 float, 4 bfloat.
    pub type_code: u8,
    /// Bits per element.
    pub type_bits: u8,
    /// Lanes per element, as in `DLPack`; always 1.
    pub type_lanes: u16,
}

impl TensorAbi {
    /// Flag: the elements may be written to.
    pub const WRITABLE: u64 = 1;

    /// Flag: a buffer, part of the model's state but not learned from gradients.
    pub const BUFFER: u64 = 2;

    /// A null view, for output arguments.
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

/// Parameters, gradients, the batch and others in the host's memory; the set of collections is open.
#[extension("sconce.tensors/1")]
pub trait Tensors {
    /// Current number of slots of the [`Collection`] with this number; some may be empty.
    #[ahead]
    fn count(&self, collection: u32) -> usize;

    /// The tensor at an index. The status is `NOT_FOUND` for an empty slot.
    #[local]
    fn at(&self, collection: u32, index: usize, writable: bool) -> Result<TensorAbi, Refusal>;

    /// The index of the tensor with this name.
    #[ahead]
    fn find(&self, collection: u32, name: &str) -> Result<usize, Refusal>;
}

/// Collections of tensors that this version of the API knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u32)]
pub enum Collection {
    /// The model's parameters and buffers, in order of registration.
    Parameters = 0,
    /// The parameters' gradients, at the parameters' indices; slots without a gradient are empty.
    Gradients = 1,
    /// The batch: `inputs`, `targets`, `outputs`, `loss`, and others that the task names.
    Batch = 2,
    /// The module of the current call: `input`, `output`, `input_gradient`, `output_gradient`.
    Module = 3,
    /// Tensors that hooks have published.
    Published = 4,
    /// Extra tensors of the current checkpoint.
    Checkpoint = 5,
    /// The optimizer's state, with names such as `fc1.weight.exp_avg`.
    Optimizer = 6,
}

impl Collection {
    /// All collections that this version of the API knows, in the order of their numbers.
    pub const ALL: [Collection; 7] = [
        Collection::Parameters,
        Collection::Gradients,
        Collection::Batch,
        Collection::Module,
        Collection::Published,
        Collection::Checkpoint,
        Collection::Optimizer,
    ];

    /// The collection with this number; `None` if this version of the API doesn't know it.
    pub fn from_number(number: u32) -> Option<Collection> {
        Collection::ALL.get(number as usize).copied()
    }

    /// The name that messages use.
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
