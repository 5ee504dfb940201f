//! Launches of kernels on candle's stream, with tensors as arguments.
#![expect(
    unsafe_code,
    reason = "kernels are foreign code that is given addresses"
)]

use candle_core::backend::BackendDevice;
use candle_core::cuda_backend::cudarc::driver::sys::CUfunction_attribute_enum as CUfunction_attribute;
use candle_core::cuda_backend::cudarc::driver::{
    CudaStream, DevicePtr, LaunchConfig, PushKernelArg, SyncOnDrop,
};
use candle_core::cuda_backend::{CudaStorageSlice, WrapErr};
use candle_core::op::BackpropOp;
use candle_core::{CudaDevice, DType, Device, Result, Shape, Storage, Tensor, bail};

use super::compilation::modules;
use super::compilation::sources::Family;

/// Threads of a block, where a kernel's scheme asks for no other number.
pub(super) const THREADS: u32 = 256;

/// Bytes of shared memory that every kernel may have without asking.
const ALWAYS_SHARED: u32 = 48 * 1024;

/// What a kernel is given, in the order of its parameters.
pub(super) enum Argument<'a> {
    /// The first element of a contiguous tensor. A kernel that writes there has a tensor that nobody else reads or writes meanwhile.
    Tensor(&'a Tensor),
    /// A null pointer, where a kernel can do without.
    None,
    U32(u32),
    U64(u64),
    F32(f32),
    F64(f64),
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// Blocks: (x, y, z).
    pub(super) blocks: (u32, u32, u32),
    /// Threads of each: (x, y, z).
    pub(super) threads: (u32, u32, u32),
    /// Bytes of shared memory that the kernel's source leaves open.
    pub(super) shared: u32,
}

impl Grid {
    /// This many blocks of [`THREADS`] threads.
    pub(super) fn blocks(blocks: u32) -> Grid {
        Grid {
            blocks: (blocks, 1, 1),
            threads: (THREADS, 1, 1),
            shared: 0,
        }
    }

    /// A thread for each of `count` elements, in blocks of [`THREADS`].
    pub(super) fn threads(count: usize) -> Result<Grid> {
        Ok(Grid::blocks(count_of_blocks(count, THREADS as usize)?))
    }

    /// A row of threads for each of `rows` rows of this width: a warp where that is enough, else a block.
    pub(super) fn rows(rows: usize, width: usize) -> Result<Grid> {
        const OF_BLOCK: usize = 4;
        if width > 1024 {
            return Ok(Grid::blocks(count_of_blocks(rows, 1)?));
        }
        Ok(Grid {
            blocks: (count_of_blocks(rows, OF_BLOCK)?, 1, 1),
            threads: (32, OF_BLOCK as u32, 1),
            shared: 0,
        })
    }
}

/// `count` things, `each` in a block; an error beyond what a grid holds.
pub(super) fn count_of_blocks(count: usize, each: usize) -> Result<u32> {
    match i32::try_from(count.div_ceil(each)) {
        Ok(blocks) => Ok(blocks.unsigned_abs()),
        Err(_) => bail!("a tensor of {count} elements or rows is too large for one launch"),
    }
}

/// Into how many segments of how many rows a sum over rows is cut: decided by the rows alone, so that its order is.
pub(super) fn segments(rows: usize) -> (usize, usize) {
    const SHORTEST: usize = 64;
    const MOST: usize = 64;
    let each = rows.div_ceil(MOST).max(SHORTEST).min(rows.max(1));
    (rows.div_ceil(each), each)
}

/// What a kernel's name ends in, by the type of a tensor.
pub(super) fn suffix(tensor: &Tensor) -> Result<&'static str> {
    match tensor.dtype() {
        DType::F32 => Ok("f32"),
        DType::BF16 => Ok("bf16"),
        other => bail!("CUDA kernels take f32 and bf16, found {}", other.as_str()),
    }
}

/// The device of a tensor on a GPU.
pub(super) fn device_of(tensor: &Tensor) -> Result<CudaDevice> {
    match tensor.device() {
        Device::Cuda(device) => Ok(device.clone()),
        _ => bail!("a CUDA kernel was given a tensor of another device"),
    }
}

/// A tensor whose elements a kernel is going to write.
pub(super) fn uninitialised(
    device: &CudaDevice,
    shape: impl Into<Shape>,
    dtype: DType,
) -> Result<Tensor> {
    let shape = shape.into();
    // SAFETY: the elements are plain numbers, and the caller's kernel writes all of them before anything reads them: it is next on the
    // same stream.
    let storage = unsafe { device.alloc_uninit(&shape, dtype)? };
    let storage = Storage::Cuda(storage);
    Ok(Tensor::from_storage(
        storage,
        shape,
        BackpropOp::none(),
        false,
    ))
}

/// A table for kernels, whose words are as in the source's structures.
pub(super) fn uploaded(device: &CudaDevice, words: Vec<u64>) -> Result<Tensor> {
    let count = words.len();
    let words: Vec<i64> = words.into_iter().map(u64::cast_signed).collect();
    Tensor::from_vec(words, count, &Device::Cuda(device.clone()))
}

/// The address of a contiguous tensor's first element, and what orders the stream with other streams that use it.
fn address<'a>(
    storage: &'a Storage,
    start: usize,
    stream: &'a CudaStream,
) -> Result<(u64, SyncOnDrop<'a>)> {
    let Storage::Cuda(storage) = storage else {
        bail!("a CUDA kernel was given a tensor of another device")
    };
    let (base, sync) = match &storage.slice {
        CudaStorageSlice::U8(slice) => slice.device_ptr(stream),
        CudaStorageSlice::U32(slice) => slice.device_ptr(stream),
        CudaStorageSlice::I64(slice) => slice.device_ptr(stream),
        CudaStorageSlice::BF16(slice) => slice.device_ptr(stream),
        CudaStorageSlice::F32(slice) => slice.device_ptr(stream),
        CudaStorageSlice::F64(slice) => slice.device_ptr(stream),
        _ => bail!("a CUDA kernel was given a tensor of a type that it does not take"),
    };
    let size = candle_core::backend::BackendStorage::dtype(storage).size_in_bytes();
    Ok((base + (start * size) as u64, sync))
}

/// The address of a tensor, for tables. The tensor must outlive the launch that reads the table.
pub(super) fn address_of(tensor: &Tensor) -> Result<u64> {
    let device = device_of(tensor)?;
    if tensor.elem_count() == 0 {
        return Ok(0);
    }
    let stream = device.cuda_stream();
    let (storage, layout) = tensor.storage_and_layout();
    let Some((start, _)) = layout.contiguous_offsets() else {
        bail!("a CUDA kernel was given a tensor that is not contiguous")
    };
    let (address, _sync) = address(&storage, start, &stream)?;
    Ok(address)
}

/// Launches a kernel of a family, compiled and loaded where it isn't yet.
pub(super) fn launch(
    device: &CudaDevice,
    (family, kernel): (Family, &str),
    grid: Grid,
    arguments: &[Argument<'_>],
) -> Result<()> {
    let stream = device.cuda_stream();
    let function = modules::kernel(stream.context(), family, kernel)?;
    let tensors: Vec<_> = arguments
        .iter()
        .map(|argument| match argument {
            Argument::Tensor(tensor) => Some(tensor.storage_and_layout()),
            _ => None,
        })
        .collect();
    // Held until the launch, as by it they order this stream with others.
    let mut orders = Vec::new();
    let mut values: Vec<u64> = Vec::with_capacity(arguments.len());
    for (argument, tensor) in arguments.iter().zip(&tensors) {
        // A parameter reads as many of the value's bytes as its type has, the lowest first.
        values.push(match (argument, tensor) {
            (Argument::Tensor(_), Some((storage, layout))) => {
                let Some((start, _)) = layout.contiguous_offsets() else {
                    bail!("the kernel `{kernel}` was given a tensor that is not contiguous")
                };
                let (address, order) = address(storage, start, &stream)?;
                orders.push(order);
                address
            }
            (Argument::U32(value), _) => u64::from(*value),
            (Argument::U64(value), _) => *value,
            (Argument::F32(value), _) => u64::from(value.to_bits()),
            (Argument::F64(value), _) => value.to_bits(),
            (Argument::Tensor(_) | Argument::None, _) => 0,
        });
    }
    if grid.shared > ALWAYS_SHARED {
        function
            .set_attribute(
                CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                grid.shared.cast_signed(),
            )
            .w()?;
    }
    let mut call = stream.launch_builder(&function);
    for value in &values {
        call.arg(value);
    }
    let config = LaunchConfig {
        grid_dim: grid.blocks,
        block_dim: grid.threads,
        shared_mem_bytes: grid.shared,
    };
    // SAFETY: each module of this folder passes its kernels what their sources declare, contiguous tensors of the sizes that they index,
    // and tensors to write to that it made itself or was given to change.
    unsafe { call.launch(config) }.w()?;
    drop(orders);
    Ok(())
}
