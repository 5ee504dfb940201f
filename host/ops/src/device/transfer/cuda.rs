//! Transfers to NVIDIA GPUs: pinned memory, a second stream, and events between the two.
#![expect(
    unsafe_code,
    reason = "uninitialised memory, and elements as bytes for the driver's copies"
)]

use std::sync::Arc;

use candle_core::cuda_backend::cudarc::driver::{
    CudaEvent, CudaSlice, CudaStream, DeviceRepr, DriverError, PinnedHostSlice,
};
use candle_core::cuda_backend::{CudaDType, CudaDevice};
use candle_core::op::BackpropOp;
use candle_core::{CpuStorage, DType, Device, Error, Result, Shape, Storage, Tensor, bail};

use crate::device::fetch::waiting;
use crate::device::timeline::span_on;

/// Alignment of each tensor in a slot, that of the driver's own allocations.
const ALIGNMENT: usize = 256;

/// Bytes by which slots grow.
const GRANULE: usize = 1 << 16;

pub(super) struct Uploader {
    device: CudaDevice,
    /// The stream of copies.
    copying: Arc<CudaStream>,
    slots: Vec<Slot>,
    /// Number of copies that have begun.
    begun: usize,
}

/// Memory for one copy.
struct Slot {
    /// Pinned memory of the host, and as much of the device; none before the first copy.
    memory: Option<(PinnedHostSlice<u8>, CudaSlice<u8>)>,
    /// On the copying stream: the copy to the device is done.
    is_copied: CudaEvent,
    /// On the computing stream: the tensors have been taken out.
    is_empty: CudaEvent,
}

pub(super) struct Upload {
    /// The copy's number.
    number: usize,
    tensors: Vec<Placed>,
}

/// A tensor in a slot.
struct Placed {
    /// Its first byte.
    start: usize,
    shape: Shape,
    dtype: DType,
}

impl Uploader {
    pub(super) fn new(device: &Device) -> Result<Option<Uploader>> {
        let Device::Cuda(device) = device else {
            return Ok(None);
        };
        let context = Arc::clone(device.cuda_stream().context());
        let slot = || {
            Ok(Slot {
                memory: None,
                is_copied: context.new_event(None).map_err(failed)?,
                is_empty: context.new_event(None).map_err(failed)?,
            })
        };
        Ok(Some(Uploader {
            device: device.clone(),
            copying: context.new_stream().map_err(failed)?,
            slots: (0..super::Uploader::SLOTS)
                .map(|_| slot())
                .collect::<Result<_>>()?,
            begun: 0,
        }))
    }

    pub(super) fn begin(&mut self, tensors: &[&Tensor]) -> Result<Upload> {
        let number = self.begun;
        self.begun += 1;
        let index = number % self.slots.len();
        let Some(slot) = self.slots.get_mut(index) else {
            bail!("an uploader without slots");
        };
        let mut size = 0_usize;
        let mut placed = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            placed.push(Placed {
                start: size,
                shape: tensor.shape().clone(),
                dtype: tensor.dtype(),
            });
            let bytes = tensor.elem_count() * tensor.dtype().size_in_bytes();
            size = (size + bytes).next_multiple_of(ALIGNMENT);
        }
        // The host memory is read until the slot's last copy is done.
        waiting(|| slot.is_copied.synchronize()).map_err(failed)?;
        // The device's memory is read until the computing stream has taken the last tensors out.
        self.copying.wait(&slot.is_empty).map_err(failed)?;
        let (host, on_device) = slot.memory_of(size, &self.copying)?;
        let host = host.as_mut_slice().map_err(failed)?;
        for (tensor, place) in tensors.iter().zip(&placed) {
            let Some(free) = host.get_mut(place.start..) else {
                bail!("a slot of {size} bytes is too small");
            };
            write(tensor, free)?;
        }
        let (Some(bytes), Some(mut target)) = (host.get(..size), on_device.try_slice_mut(..size))
        else {
            bail!("a slot is smaller than {size} bytes");
        };
        let _span = span_on(&self.copying, "copy");
        // Pinned memory is copied later, while the host continues.
        self.copying
            .memcpy_htod(bytes, &mut target)
            .map_err(failed)?;
        slot.is_copied.record(&self.copying).map_err(failed)?;
        Ok(Upload {
            number,
            tensors: placed,
        })
    }

    pub(super) fn finish(&mut self, upload: Upload) -> Result<Vec<Tensor>> {
        let Upload { number, tensors } = upload;
        let index = number % self.slots.len();
        if number + self.slots.len() < self.begun {
            bail!("more copies have begun than there are slots");
        }
        let Some((slot, (_, bytes))) = self
            .slots
            .get(index)
            .and_then(|slot| Some((slot, slot.memory.as_ref()?)))
        else {
            bail!("a copy to the device has not begun");
        };
        let computing = self.device.cuda_stream();
        computing.wait(&slot.is_copied).map_err(failed)?;
        let taken = (tensors.into_iter()).map(|place| take(&self.device, bytes, &place));
        let taken = taken.collect::<Result<Vec<_>>>();
        slot.is_empty.record(&computing).map_err(failed)?;
        taken
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        // No memory is freed while it is copied from or to. Nothing is left to be done about a driver that fails.
        for slot in &self.slots {
            self.copying.wait(&slot.is_empty).unwrap_or_default();
        }
        self.copying.synchronize().unwrap_or_default();
    }
}

impl Slot {
    /// The slot's memory, at least this many bytes of each. The copying stream must have waited for the slot to be empty.
    fn memory_of(
        &mut self,
        size: usize,
        copying: &Arc<CudaStream>,
    ) -> Result<(&mut PinnedHostSlice<u8>, &mut CudaSlice<u8>)> {
        if self
            .memory
            .as_ref()
            .is_some_and(|(host, _)| host.len() < size)
        {
            self.memory = None;
        }
        if self.memory.is_none() {
            let size = size.max(1).next_multiple_of(GRANULE);
            // SAFETY: bytes of any value are valid, and each is written before the device reads it.
            let host = unsafe { copying.context().alloc_pinned::<u8>(size) };
            let on_device = copying.alloc_zeros::<u8>(size);
            self.memory = Some((host.map_err(failed)?, on_device.map_err(failed)?));
        }
        match &mut self.memory {
            Some((host, on_device)) => Ok((host, on_device)),
            None => bail!("a slot without memory"),
        }
    }
}

fn failed(error: DriverError) -> Error {
    Error::wrap(error)
}

/// Writes a tensor's elements, in row-major order.
fn write(tensor: &Tensor, onto: &mut [u8]) -> Result<()> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else {
        bail!("only tensors of the CPU are copied to a device");
    };
    let range = layout.start_offset()..layout.start_offset() + layout.shape().elem_count();
    match storage {
        CpuStorage::U8(values) => write_elements(values.get(range), onto),
        CpuStorage::U32(values) => write_elements(values.get(range), onto),
        CpuStorage::I64(values) => write_elements(values.get(range), onto),
        CpuStorage::F32(values) => write_elements(values.get(range), onto),
        CpuStorage::F64(values) => write_elements(values.get(range), onto),
        _ => bail!("{} can't be copied to a device", tensor.dtype().as_str()),
    }
}

fn write_elements<T: DeviceRepr>(values: Option<&[T]>, onto: &mut [u8]) -> Result<()> {
    let Some(values) = values else {
        bail!("a tensor reaches beyond its memory");
    };
    // SAFETY: the elements are numbers without padding, whose bytes are valid for as long as they are borrowed.
    let bytes =
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
    let Some(onto) = onto.get_mut(..bytes.len()) else {
        bail!("a slot is smaller than a tensor of {} bytes", bytes.len());
    };
    onto.copy_from_slice(bytes);
    Ok(())
}

/// A new tensor with the elements of one in a slot, copied on the computing stream.
fn take(device: &CudaDevice, slot: &CudaSlice<u8>, place: &Placed) -> Result<Tensor> {
    match place.dtype {
        DType::U8 => take_elements::<u8>(device, slot, place),
        DType::U32 => take_elements::<u32>(device, slot, place),
        DType::I64 => take_elements::<i64>(device, slot, place),
        DType::F32 => take_elements::<f32>(device, slot, place),
        DType::F64 => take_elements::<f64>(device, slot, place),
        other => bail!("{} can't be copied to a device", other.as_str()),
    }
}

fn take_elements<T: CudaDType + DeviceRepr>(
    device: &CudaDevice,
    slot: &CudaSlice<u8>,
    place: &Placed,
) -> Result<Tensor> {
    let count = place.shape.elem_count();
    let end = place.start + count * size_of::<T>();
    let Some(bytes) = slot.try_slice(place.start..end) else {
        bail!("a slot ends before byte {end}");
    };
    // SAFETY: any bytes are a number, the slice is as long as `count` elements, and its start is aligned to 256 bytes.
    let Some(elements) = (unsafe { bytes.transmute::<T>(count) }) else {
        bail!("a slot ends before byte {end}");
    };
    // SAFETY: all elements are written by the copy, which the stream orders before any use.
    let mut taken = unsafe { device.alloc::<T>(count)? };
    device.memcpy_dtod(&elements, &mut taken)?;
    let storage = T::wrap_cuda_slice(taken, device.clone());
    let shape = place.shape.clone();
    Ok(Tensor::from_storage(
        Storage::Cuda(storage),
        shape,
        BackpropOp::none(),
        false,
    ))
}
