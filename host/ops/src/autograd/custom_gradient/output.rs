//! The memory of a tensor, moved out of it: what a custom operation gives that was computed before.

use std::sync::{Mutex, PoisonError};

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Shape, Storage, Tensor, bail};

/// The memory of an output, and its shape.
pub(crate) enum Output {
    Cpu(CpuStorage, Shape),
    #[cfg(feature = "cuda")]
    Cuda(CudaStorage, Shape),
}

impl Output {
    /// Moves a tensor's memory out of it, in the order of its elements. Tensors that share it are left without.
    pub(crate) fn of(tensor: Tensor) -> Result<Output> {
        let tensor = if is_all(&tensor) {
            tensor
        } else {
            tensor.force_contiguous()?
        };
        let taken = Taken(Mutex::new(None));
        tensor.inplace_op1(&taken)?;
        match taken.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(output) => Ok(output),
            None => bail!("an operation's output is on a device that is not known here"),
        }
    }

    #[cfg_attr(
        not(feature = "cuda"),
        expect(clippy::unnecessary_wraps, reason = "other devices have other outputs")
    )]
    pub(crate) fn on_cpu(self) -> Result<(CpuStorage, Shape)> {
        match self {
            Output::Cpu(storage, shape) => Ok((storage, shape)),
            #[cfg(feature = "cuda")]
            Output::Cuda(..) => bail!("an operation's output is not on the CPU, as its input is"),
        }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn on_cuda(self) -> Result<(CudaStorage, Shape)> {
        match self {
            Output::Cuda(storage, shape) => Ok((storage, shape)),
            Output::Cpu(..) => bail!("an operation's output is not on the GPU, as its input is"),
        }
    }
}

/// Whether a tensor has all elements of its memory, in order.
fn is_all(tensor: &Tensor) -> bool {
    let (storage, layout) = tensor.storage_and_layout();
    let count = layout.shape().elem_count();
    let length = match &*storage {
        Storage::Cpu(CpuStorage::F32(elements)) => elements.len(),
        Storage::Cpu(CpuStorage::F64(elements)) => elements.len(),
        Storage::Cpu(CpuStorage::BF16(elements)) => elements.len(),
        Storage::Cpu(_) => return false,
        // Memory after the last element does no harm.
        _ => count,
    };
    layout.is_contiguous() && layout.start_offset() == 0 && length == count
}

/// Takes the memory of a tensor.
struct Taken(Mutex<Option<Output>>);

impl Taken {
    fn set(&self, output: Output) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
    }
}

impl InplaceOp1 for Taken {
    fn name(&self) -> &'static str {
        "take"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let taken = std::mem::replace(storage, CpuStorage::U8(Vec::new()));
        self.set(Output::Cpu(taken, layout.shape().clone()));
        Ok(())
    }

    #[cfg(feature = "cuda")]
    #[expect(unsafe_code, reason = "memory that is never read is not filled")]
    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> Result<()> {
        use candle_core::DType;
        use candle_core::backend::{BackendDevice, BackendStorage};
        let shape = Shape::from(1);
        // SAFETY: a byte, which nothing reads: it takes the place of the memory in a tensor about to be dropped.
        let unused = unsafe { storage.device().alloc_uninit(&shape, DType::U8)? };
        let taken = std::mem::replace(storage, unused);
        self.set(Output::Cuda(taken, layout.shape().clone()));
        Ok(())
    }
}
