//! `sconce.tensors/1`: the run's tensors, lent where they lie.
//!
//! Nothing is copied, except that a gradient that is not contiguous is made so before it is
//! written to.
//!
//! **Why the pointers are good.** A lent pointer leads into the storage of a tensor that
//! [`Exposed`] holds, so the storage lives until the loop takes the tensor back, which it does
//! between dispatches alone. During a dispatch the training thread is in a hook: no tensor
//! operation runs, and the plugin's side hands out a writable view only while its task view is
//! borrowed alone.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;

use candle_core::{CpuStorage, DType, InplaceOp1, Layout, Storage, Tensor};
use sconce_plugin_api::Point;
use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::{Collection, TensorAbi, TensorsTable};
use sconce_plugin_api::tensor;

use super::{Shared, refuse, shared};
use crate::gradients::Gradients;
use crate::nearest::nearest;
use crate::parameters::Parameters;

pub(super) static TABLE: TensorsTable = TensorsTable { count, at, find };

/// The names of the batch's tensors, in the order of [`Exposed::batch`].
const BATCH: [&str; 3] = ["inputs", "targets", "outputs"];

/// The tensors that hooks can see at this moment.
#[derive(Default)]
pub struct Exposed {
    parameters: RefCell<Vec<(Box<str>, Tensor)>>,
    gradients: RefCell<Option<Gradients>>,
    batch: RefCell<[Option<Tensor>; BATCH.len()]>,
}

impl Exposed {
    /// Shows the model's parameters, from now to the end of the run.
    pub fn set_parameters(&self, parameters: &Parameters) {
        let entry = |entry: &crate::parameters::Parameter| {
            (Box::from(entry.name()), entry.tensor().clone())
        };
        *self.parameters.borrow_mut() = parameters.iter().map(entry).collect();
    }

    /// Shows gradients until they are taken back.
    pub fn set_gradients(&self, gradients: Gradients) {
        *self.gradients.borrow_mut() = Some(gradients);
    }

    /// Takes the gradients back, as hooks have left them.
    pub fn take_gradients(&self) -> Option<Gradients> {
        self.gradients.borrow_mut().take()
    }

    /// Shows a batch that has no outputs yet.
    pub fn set_batch(&self, inputs: &Tensor, targets: &Tensor) {
        *self.batch.borrow_mut() = [Some(inputs.clone()), Some(targets.clone()), None];
    }

    /// Shows the outputs of the batch.
    pub fn set_outputs(&self, outputs: &Tensor) {
        let [_, _, place] = &mut *self.batch.borrow_mut();
        *place = Some(outputs.clone());
    }

    /// The batch is over.
    pub fn clear_batch(&self) {
        *self.batch.borrow_mut() = [None, None, None];
    }

    fn count(&self, collection: Collection) -> usize {
        match collection {
            Collection::Gradients if self.gradients.borrow().is_none() => 0,
            Collection::Parameters | Collection::Gradients => self.parameters.borrow().len(),
            Collection::Batch => BATCH.len(),
            _ => 0,
        }
    }

    /// The name at an index; it stays where it is until the end of the run.
    fn name(&self, collection: Collection, index: usize) -> Option<TextAbi> {
        if collection == Collection::Batch {
            return BATCH.get(index).map(|name| TextAbi::new(name));
        }
        let parameters = self.parameters.borrow();
        parameters.get(index).map(|(name, _)| TextAbi::new(name))
    }

    fn index(&self, collection: Collection, name: &str) -> Result<usize, String> {
        if collection == Collection::Batch {
            let index = BATCH.iter().position(|known| *known == name);
            return index.ok_or_else(|| format!("the batch has no `{name}`"));
        }
        let parameters = self.parameters.borrow();
        let index = parameters.iter().position(|(known, _)| **known == *name);
        index.ok_or_else(|| {
            let names = parameters.iter().map(|(name, _)| &**name);
            let hint = nearest(name, names).map(|near| format!("; did you mean `{near}`?"));
            format!(
                "no parameter is called `{name}`{}",
                hint.unwrap_or_default()
            )
        })
    }

    fn tensor(&self, collection: Collection, index: usize) -> Option<Tensor> {
        match collection {
            Collection::Parameters => {
                let parameters = self.parameters.borrow();
                parameters.get(index).map(|(_, tensor)| tensor.clone())
            }
            Collection::Gradients => self.gradients.borrow().as_ref()?.at(index).cloned(),
            Collection::Batch => self.batch.borrow().get(index)?.clone(),
            _ => None,
        }
    }

    /// The tensor at an index, contiguous: a gradient is made so, in its place.
    fn writable(
        &self,
        collection: Collection,
        index: usize,
    ) -> candle_core::Result<Option<Tensor>> {
        let Some(tensor) = self.tensor(collection, index) else {
            return Ok(None);
        };
        if tensor.is_contiguous() {
            return Ok(Some(tensor));
        }
        let tensor = tensor.contiguous()?;
        if let (Collection::Gradients, Some(gradients)) =
            (collection, &mut *self.gradients.borrow_mut())
        {
            gradients.set(index, tensor.clone());
            return Ok(Some(tensor));
        }
        candle_core::bail!("it is not contiguous")
    }
}

unsafe extern "C" fn count(context: *const c_void, collection: u32) -> usize {
    // SAFETY: the context is the one that the host handed out for this call.
    let shared = unsafe { shared(context) };
    match (shared, Collection::from_number(collection)) {
        (Some(shared), Some(collection)) => shared.tensors.count(collection),
        _ => 0,
    }
}

unsafe extern "C" fn find(
    context: *const c_void,
    collection: u32,
    name: TextAbi,
    index: *mut usize,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, in which name, index
    // and error are borrowed.
    unsafe {
        let (Some(shared), Some(name), Some(index)) =
            (shared(context), name.read(), index.as_mut())
        else {
            return Status::INVALID.0;
        };
        let Some(collection) = Collection::from_number(collection) else {
            return refuse(error, Status::UNSUPPORTED, "this host has no such tensors");
        };
        match shared.tensors.index(collection, name) {
            Ok(found) => {
                *index = found;
                Status::OK.0
            }
            Err(message) => refuse(error, Status::NOT_FOUND, &message),
        }
    }
}

unsafe extern "C" fn at(
    context: *const c_void,
    collection: u32,
    index: usize,
    writable: u32,
    tensor: *mut TensorAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, in which tensor and
    // error are borrowed.
    unsafe {
        let (Some(shared), Some(place)) = (shared(context), tensor.as_mut()) else {
            return Status::INVALID.0;
        };
        let Some(collection) = Collection::from_number(collection) else {
            return refuse(error, Status::UNSUPPORTED, "this host has no such tensors");
        };
        if writable != 0
            && let Some(message) = why_not_writable(shared, collection, index)
        {
            return refuse(error, Status::NOT_LEGAL_HERE, &message);
        }
        match lend(&shared.tensors, collection, index, writable != 0) {
            Ok(Some(lent)) => {
                *place = lent;
                Status::OK.0
            }
            Ok(None) => Status::NOT_FOUND.0,
            Err(source) => refuse(
                error,
                Status::ERROR,
                &format!("can't lend the tensor: {source}"),
            ),
        }
    }
}

/// Why a tensor can't be written to at the present mount point, or nothing where it can.
fn why_not_writable(shared: &Shared<'_>, collection: Collection, index: usize) -> Option<String> {
    use Point as P;
    let Some(point) = shared.point() else {
        return Some("nothing can be changed at creation".to_owned());
    };
    let (what, points): (&str, &[Point]) = match (collection, index) {
        (Collection::Parameters, _) => (
            "the parameters",
            &[
                P::BeforeRun,
                P::BeforeLoop,
                P::AfterLoop,
                P::BeforeEpoch,
                P::AfterEpoch,
                P::AfterCycle,
                P::AfterIter,
                P::AfterUpdate,
            ],
        ),
        (Collection::Gradients, _) => ("the gradients", &[P::AfterBackward, P::BeforeUpdate]),
        (Collection::Batch, 0) => ("the inputs", &[P::BeforeIter]),
        (Collection::Batch, 2) => ("the outputs", &[P::AfterForward]),
        _ => ("the targets", &[]),
    };
    if points.contains(&point) {
        return None;
    }
    let names: Vec<&str> = points.iter().map(|point| point.name()).collect();
    let places = if names.is_empty() {
        "nowhere".to_owned()
    } else {
        format!("at {}", names.join(", "))
    };
    Some(format!(
        "{what} can't be changed at `{point}`; they can {places}"
    ))
}

/// The view of a tensor, or nothing where the place is empty.
fn lend(
    exposed: &Exposed,
    collection: Collection,
    index: usize,
    writable: bool,
) -> candle_core::Result<Option<TensorAbi>> {
    let tensor = if writable {
        exposed.writable(collection, index)?
    } else {
        exposed.tensor(collection, index)
    };
    let Some(tensor) = tensor else {
        return Ok(None);
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
    let layout = tensor.layout();
    let size = u64::from(type_bits) / 8;
    Ok(Some(TensorAbi {
        data: data.cast(),
        byte_length: reach(layout) * size,
        // `usize` and `i64` are alike in size here, and no dimension is above `i64::MAX`.
        shape: layout.dims().as_ptr().cast(),
        strides: layout.stride().as_ptr().cast(),
        name: exposed.name(collection, index).unwrap_or(TextAbi::EMPTY),
        flags: if writable { TensorAbi::WRITABLE } else { 0 },
        dimensions: layout.dims().len() as u32,
        device_type: 1,
        device_id: 0,
        type_code,
        type_bits,
        type_lanes: 1,
    }))
}

#[cfg(not(target_pointer_width = "64"))]
compile_error!("tensors are lent with their shapes in place, which needs 64-bit sizes");

/// How many elements lie between the first and the last, both counted.
fn reach(layout: &Layout) -> u64 {
    if layout.shape().elem_count() == 0 {
        return 0;
    }
    let steps = layout.dims().iter().zip(layout.stride());
    let last: usize = steps.map(|(&size, &stride)| (size - 1) * stride).sum();
    last as u64 + 1
}

fn codes(dtype: DType) -> Option<(u8, u8)> {
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

/// The address of an element to be read.
fn element(storage: &CpuStorage, offset: usize) -> *const u8 {
    pointer!(storage, offset, as_ptr, ptr::null())
}

/// Finds the address of a tensor's first element to be written to.
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
