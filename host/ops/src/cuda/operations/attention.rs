//! Attention by tiles, by `host/ops/cuda/attention_tensor_cores.cu` for bf16, where the device has such tensor cores, and else by
//! `host/ops/cuda/attention.cu`.

use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use candle_core::{CudaDevice, DType, Result, Tensor};

use crate::autograd::custom_gradient::{Backward, custom_gradient_of_output};
use crate::cuda::compilation::sources::Family;
use crate::cuda::launch::{
    Argument, Grid, address_of, count_of_blocks, device_of, launch, uninitialised,
};

/// softmax(Q · Kᵀ / √(width of a head)) · V for each head, from Q, K and V side by side, (batch, length, 3 · width); `None` where the
/// kernels don't take it.
pub(crate) fn attention(qkv: &Tensor, heads: usize, causal: bool) -> Result<Option<Tensor>> {
    if !crate::cuda::takes(qkv) {
        return Ok(None);
    }
    let qkv = qkv.contiguous()?;
    let (batch, length, three) = qkv.dims3()?;
    let sizes = Sizes {
        batch,
        length,
        heads,
        each: three / 3 / heads,
        causal,
    };
    let Some(kernels) = Kernels::of(&qkv, sizes)? else {
        return Ok(None);
    };
    if qkv.dtype() == DType::BF16 && kernels.scheme == Scheme::Plain {
        let Some(y) = attention(&qkv.to_dtype(DType::F32)?, heads, causal)? else {
            return Ok(None);
        };
        return Ok(Some(y.to_dtype(DType::BF16)?));
    }
    let (y, log_sums) = kernels.forward(&qkv)?;
    let backward: Backward<1> = Box::new(move |[qkv], y, gradient, _| {
        Ok([Some(kernels.backward(qkv, y, gradient, &log_sums)?)])
    });
    let y = custom_gradient_of_output([&qkv], y, backward)?;
    Ok(Some(y))
}

#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    length: usize,
    heads: usize,
    /// Width of a head.
    each: usize,
    causal: bool,
}

/// A file of kernels, with their sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    /// `attention.cu`.
    Plain,
    /// `attention_tensor_cores.cu`.
    TensorCores,
}

/// What a launch needs to know of a kernel: own rows of a block, threads, and bytes of shared memory.
struct Block {
    rows: usize,
    threads: (u32, u32, u32),
    shared: usize,
}

impl Scheme {
    /// Which one takes these tensors.
    fn of(qkv: &Tensor, sizes: Sizes) -> Result<Scheme> {
        let device = device_of(qkv)?;
        let (major, _) = device.cuda_stream().context().compute_capability().w()?;
        // It copies runs of eight elements, 16 bytes at once.
        let has_runs = sizes.each.is_multiple_of(8) && address_of(qkv)?.is_multiple_of(16);
        if qkv.dtype() == DType::BF16 && major >= 8 && has_runs {
            return Ok(Scheme::TensorCores);
        }
        Ok(Scheme::Plain)
    }

    fn family(self) -> Family {
        match self {
            Scheme::Plain => Family::Attention,
            Scheme::TensorCores => Family::AttentionTensorCores,
        }
    }

    /// As the structures of shared memory in the sources; `held` is the width of a head that the kernels are for.
    fn block(self, kernel: Kernel, held: usize) -> Block {
        match self {
            Scheme::Plain => {
                let own_sides = if kernel == Kernel::Forward { 1 } else { 2 };
                let rows = own_sides * 64 + 2 * 32;
                Block {
                    rows: 64,
                    threads: (16, 16, 1),
                    shared: 4 * (64 * (32 + 4) + rows * (held + 4)),
                }
            }
            Scheme::TensorCores => {
                let narrow = held <= 64;
                // Own rows, and rows of a tile.
                let (own, tile) = match (kernel, narrow) {
                    (Kernel::Forward, true) => (128, 64),
                    (Kernel::Forward, false) | (_, true) => (64, 64),
                    (_, false) => (64, 32),
                };
                let own_sides = if kernel == Kernel::Forward { 1 } else { 2 };
                let of_queries = if kernel == Kernel::OfKeysAndValues {
                    2 * 2 * tile * 4
                } else {
                    0
                };
                Block {
                    rows: own,
                    threads: (128, 1, 1),
                    shared: 2 * (own_sides * own + 2 * 2 * tile) * (held + 8) + of_queries,
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Forward,
    OfQueries,
    OfKeysAndValues,
}

impl Kernel {
    fn name(self) -> &'static str {
        match self {
            Kernel::Forward => "attention",
            Kernel::OfQueries => "query_gradient",
            Kernel::OfKeysAndValues => "key_value_gradient",
        }
    }
}

/// The kernels of an attention.
struct Kernels {
    device: CudaDevice,
    sizes: Sizes,
    scheme: Scheme,
    /// Width of a head that they are for: at least the heads' own.
    held: usize,
}

impl Kernels {
    /// `None` if heads are too wide, or the device has too little shared memory.
    fn of(qkv: &Tensor, sizes: Sizes) -> Result<Option<Kernels>> {
        let Some(held) = [32, 64, 128].into_iter().find(|&held| sizes.each <= held) else {
            return Ok(None);
        };
        let kernels = Kernels {
            device: device_of(qkv)?,
            scheme: Scheme::of(qkv, sizes)?,
            sizes,
            held,
        };
        let most = kernels
            .device
            .cuda_stream()
            .context()
            .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        let most = usize::try_from(most.w()?).unwrap_or(0);
        let wanted = kernels.scheme.block(Kernel::OfKeysAndValues, held).shared;
        Ok((wanted <= most).then_some(kernels))
    }

    fn launch(&self, kernel: Kernel, tensors: &[&Tensor]) -> Result<()> {
        let Sizes {
            batch,
            length,
            heads,
            each,
            causal,
        } = self.sizes;
        let block = self.scheme.block(kernel, self.held);
        let mut arguments: Vec<_> = tensors.iter().map(|it| Argument::Tensor(it)).collect();
        arguments.extend([
            Argument::U32(length as u32),
            Argument::U32(heads as u32),
            Argument::U32(each as u32),
            Argument::U32(u32::from(causal)),
            Argument::F32((each as f64).powf(-0.5) as f32),
        ]);
        let grid = Grid {
            blocks: (
                count_of_blocks(length.div_ceil(block.rows) * batch * heads, 1)?,
                1,
                1,
            ),
            threads: block.threads,
            shared: block.shared as u32,
        };
        let name = format!("{}_{}", kernel.name(), self.held);
        launch(
            &self.device,
            (self.scheme.family(), &name),
            grid,
            &arguments,
        )
    }

    /// The output, and log Σ exp of each row's scores, as the backward pass wants it.
    fn forward(&self, qkv: &Tensor) -> Result<(Tensor, Tensor)> {
        let Sizes {
            batch,
            length,
            heads,
            each,
            ..
        } = self.sizes;
        let y = uninitialised(&self.device, (batch, length, heads * each), qkv.dtype())?;
        let log_sums = uninitialised(&self.device, (batch, heads, length), DType::F32)?;
        self.launch(Kernel::Forward, &[qkv, &y, &log_sums])?;
        Ok((y, log_sums))
    }

    fn backward(
        &self,
        qkv: &Tensor,
        y: &Tensor,
        gradient: &Tensor,
        log_sums: &Tensor,
    ) -> Result<Tensor> {
        let gradient = gradient.to_dtype(qkv.dtype())?.contiguous()?;
        let products = uninitialised(&self.device, log_sums.shape(), DType::F32)?;
        let rows = log_sums.elem_count();
        launch(
            &self.device,
            (self.scheme.family(), "output_products"),
            Grid::rows(rows, self.sizes.each)?,
            &[
                Argument::Tensor(&y.contiguous()?),
                Argument::Tensor(&gradient),
                Argument::Tensor(&products),
                Argument::U64(rows as u64),
                Argument::U32(self.sizes.length as u32),
                Argument::U32(self.sizes.heads as u32),
                Argument::U32(self.sizes.each as u32),
            ],
        )?;
        let of_qkv = uninitialised(&self.device, qkv.shape(), qkv.dtype())?;
        let tensors = [qkv, &gradient, log_sums, &products, &of_qkv];
        self.launch(Kernel::OfQueries, &tensors)?;
        self.launch(Kernel::OfKeysAndValues, &tensors)?;
        Ok(of_qkv)
    }
}
