//! `sconce.tensors/1`: the run's tensors, lent in place.
//!
//! Nothing is copied, except that a gradient that is not contiguous is made so before it is written
//! to, and that hooks see [copies](crate::bridge) of tensors on a device.
//!
//! **Why the pointers are valid.** A lent pointer leads into the storage of a tensor held by [`Exposed`]
//! or [`PublishedValues`](crate::bridge::PublishedValues), so the storage lives until the loop or a hook's own call releases
//! the tensor. The loop releases tensors only between dispatches; a hook needs an exclusive borrow of its
//! task view to do so, so nothing that it was lent is still in use. During a dispatch the training thread
//! is inside a hook: no tensor operation runs, and the plugin's side hands out a writable view only while
//! its task view is borrowed exclusively.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use candle_core::{CpuStorage, DType, InplaceOp1, Layout, Storage, Tensor};
use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{Collection, Refusal, TensorAbi, Tensors};
use sconce_plugin_api::tensor;

use super::state_of;
use crate::bridge::device::Held;
use crate::bridge::shared::BridgeState;

impl Tensors for BridgeState<'_> {
    fn count(&self, collection: u32) -> usize {
        let known = Collection::from_number(collection);
        known.map_or(0, |collection| self.tensor_count(collection))
    }

    fn find(&self, collection: u32, name: &str) -> Result<usize, Refusal> {
        self.tensor_index(known(collection)?, name)
            .map_err(|message| Refusal::new(Status::NOT_FOUND, message))
    }

    fn at(&self, collection: u32, index: usize, writable: bool) -> Result<TensorAbi, Refusal> {
        lend_kept(self, collection, index, writable).map(|(tensor, _)| tensor)
    }
}

impl BridgeState<'_> {
    /// A tensor for writing by the host itself, which the rules of mount points don't bind.
    pub(crate) fn at_any_point(
        &self,
        collection: Collection,
        index: usize,
    ) -> Result<TensorAbi, String> {
        let lent = lend(self, collection, index, true).map_err(|error| error.to_string())?;
        lent.map(|(lent, _)| lent)
            .ok_or_else(|| "there is no such tensor".to_owned())
    }
}

/// The collection of this number.
pub(super) fn known(collection: u32) -> Result<Collection, Refusal> {
    Collection::from_number(collection)
        .ok_or_else(|| Refusal::new(Status::UNSUPPORTED, "this host has no such tensors"))
}

/// Lends a tensor, with what keeps its memory.
pub(super) fn lend_kept(
    shared: &BridgeState<'_>,
    collection: u32,
    index: usize,
    writable: bool,
) -> Result<(TensorAbi, LentMemory), Refusal> {
    let collection = known(collection)?;
    if writable && let Some(refusal) = shared.why_not_lent(collection, index) {
        return Err(refusal.into());
    }
    match lend(shared, collection, index, writable) {
        Ok(lent) => lent.ok_or(Refusal::NOT_FOUND),
        Err(source) => {
            let message = format!("can't lend the tensor: {source}");
            Err(Refusal::new(Status::ERROR, message))
        }
    }
}

/// What keeps the memory of a lent tensor alive and as it was lent: the tensor, and a hold on it if it is a copy.
pub(super) struct LentMemory {
    _tensor: Option<Tensor>,
    _held: Option<Held>,
}

/// Where a tensor is that was lent for writing earlier in the call in progress, and its length in bytes; none if it is no
/// longer there.
///
/// # Safety
///
/// `context` must be the one that the host gave for the call.
pub unsafe fn lent_before(
    context: *const c_void,
    collection: u32,
    index: usize,
) -> Option<(*mut u8, u64)> {
    // SAFETY: guaranteed by the caller.
    let shared = unsafe { state_of(context) }?;
    let collection = Collection::from_number(collection)?;
    let (lent, _) = lend(shared, collection, index, true).ok()??;
    Some((lent.data.cast(), lent.byte_length))
}

/// Returns a view of a tensor and the tensor itself, or `None` if there is none at this index.
fn lend(
    shared: &BridgeState<'_>,
    collection: Collection,
    index: usize,
    writable: bool,
) -> candle_core::Result<Option<(TensorAbi, LentMemory)>> {
    let foreign = &shared.tensors.foreign;
    if foreign.has(collection) {
        // The loop keeps it.
        let memory = LentMemory {
            _tensor: None,
            _held: None,
        };
        return Ok(foreign
            .lend(collection, index, writable)
            .map(|lent| (lent, memory)));
    }
    let tensor = if writable {
        shared.writable_tensor(collection, index)?
    } else {
        shared.tensor(collection, index)
    };
    let Some(tensor) = tensor else {
        return Ok(None);
    };
    let (tensor, held) = if shared.device.copies.copies(&tensor) {
        let place = (collection, index);
        let (copy, held) = (shared.device.copies).lend(place, &tensor, writable, shared.hook())?;
        (copy, Some(held))
    } else {
        (tensor, None)
    };
    let Some((type_code, type_bits)) = codes(tensor.dtype()) else {
        candle_core::bail!("elements of type {:?} don't cross", tensor.dtype());
    };
    let data = if writable {
        let lend = Lend {
            data: Cell::new(ptr::null_mut()),
        };
        tensor.inplace_op1(&lend)?;
        lend.data.get()
    } else {
        let (storage, layout) = tensor.storage_and_layout();
        let Storage::Cpu(storage) = &*storage else {
            candle_core::bail!("it is not on the CPU");
        };
        element(storage, layout.start_offset()).cast_mut()
    };
    let mut flags = if writable { TensorAbi::WRITABLE } else { 0 };
    if shared.is_buffer(collection, index) {
        flags |= TensorAbi::BUFFER;
    }
    let layout = tensor.layout();
    let size = u64::from(type_bits) / 8;
    let lent = TensorAbi {
        data: data.cast(),
        byte_length: reach(layout) * size,
        // `usize` and `i64` have the same size here, and no dimension exceeds `i64::MAX`.
        shape: layout.dims().as_ptr().cast(),
        strides: layout.stride().as_ptr().cast(),
        name: shared.tensor_name(collection, index),
        flags,
        dimensions: layout.dims().len() as u32,
        device_type: 1,
        device_id: 0,
        type_code,
        type_bits,
        type_lanes: 1,
    };
    let memory = LentMemory {
        _tensor: Some(tensor),
        _held: held,
    };
    Ok(Some((lent, memory)))
}

#[cfg(not(target_pointer_width = "64"))]
compile_error!("tensors are lent with their shapes in place, which needs 64-bit sizes");

/// Number of elements from the first one in memory to the last, both included.
pub(super) fn reach(layout: &Layout) -> u64 {
    if layout.shape().elem_count() == 0 {
        return 0;
    }
    let steps = layout.dims().iter().zip(layout.stride());
    let last: usize = steps.map(|(&size, &stride)| (size - 1) * stride).sum();
    last as u64 + 1
}

pub(super) fn codes(dtype: DType) -> Option<(u8, u8)> {
    let dtype = match dtype {
        DType::F32 => tensor::DType::F32,
        DType::F64 => tensor::DType::F64,
        DType::F16 => tensor::DType::F16,
        DType::BF16 => tensor::DType::Bf16,
        DType::I64 => tensor::DType::I64,
        DType::U32 => tensor::DType::U32,
        DType::U8 => tensor::DType::U8,
        _ => return None,
    };
    Some(dtype.codes())
}

macro_rules! pointer {
    ($storage:expr, $offset:expr, $method:ident, $null:expr) => {
        match $storage {
            CpuStorage::F32(values) => values.$method().wrapping_add($offset).cast(),
            CpuStorage::F64(values) => values.$method().wrapping_add($offset).cast(),
            CpuStorage::F16(values) => values.$method().wrapping_add($offset).cast(),
            CpuStorage::BF16(values) => values.$method().wrapping_add($offset).cast(),
            CpuStorage::I64(values) => values.$method().wrapping_add($offset).cast(),
            CpuStorage::U32(values) => values.$method().wrapping_add($offset).cast(),
            CpuStorage::U8(values) => values.$method().wrapping_add($offset),
            _ => $null,
        }
    };
}

/// Address of an element, for reading.
fn element(storage: &CpuStorage, offset: usize) -> *const u8 {
    pointer!(storage, offset, as_ptr, ptr::null())
}

/// Operation that finds the address of a tensor's first element, for writing.
struct Lend {
    data: Cell<*mut u8>,
}

impl InplaceOp1 for Lend {
    fn name(&self) -> &'static str {
        "lend-to-hook"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        let offset = layout.start_offset();
        self.data
            .set(pointer!(storage, offset, as_mut_ptr, ptr::null_mut()));
        Ok(())
    }
}
