//! Activation functions, with the bias before them, by `host/ops/cuda/activations.cu`.

use candle_core::{CudaDevice, D, DType, Result, Tensor, bail};

use crate::autograd::custom_gradient::custom_gradient;
use crate::cuda::compilation::sources::Family;
use crate::cuda::launch::{
    Argument, Grid, address_of, count_of_blocks, device_of, launch, segments, suffix, uninitialised,
};
use crate::options::Function;

/// A function of every element, or `None` where the kernels don't take the tensor.
pub(crate) fn apply(x: &Tensor, function: Function) -> Result<Option<Tensor>> {
    if !crate::cuda::takes(x) {
        return Ok(None);
    }
    let x = x.contiguous()?;
    let device = device_of(&x)?;
    let activation = Activation {
        device,
        function: Some(function),
    };
    let y = activation.forward(&x, None)?;
    let y = custom_gradient([&x], y, move |[x], gradient, _| {
        Ok([Some(activation.of_input(x, None, gradient)?)])
    })?;
    Ok(Some(y))
}

/// x + bias over the last dimension, and a function of it; `None` where the kernels don't take the tensors.
pub(crate) fn add_bias(
    x: &Tensor,
    bias: &Tensor,
    function: Option<Function>,
) -> Result<Option<Tensor>> {
    if !crate::cuda::takes(x) || bias.dtype() != DType::F32 {
        return Ok(None);
    }
    let width = x.dim(D::Minus1)?;
    if bias.dims() != [width] {
        bail!("a bias {:?} for {:?}", bias.dims(), x.dims())
    }
    let (x, bias) = (x.contiguous()?, bias.contiguous()?);
    let activation = Activation {
        device: device_of(&x)?,
        function,
    };
    let y = activation.forward(&x, Some(&bias))?;
    let y = custom_gradient([&x, &bias], y, move |[x, bias], gradient, [_, of_bias]| {
        // Without a function the gradient is the output's.
        let of_x = match activation.function {
            Some(_) => activation.of_input(x, Some(bias), gradient)?,
            None => gradient.contiguous()?,
        };
        let of_bias = of_bias.then(|| activation.column_sums(&of_x, width));
        Ok([Some(of_x), of_bias.transpose()?])
    })?;
    Ok(Some(y))
}

/// Elements that a thread takes: 16 bytes of each tensor where rows of this width consist of such runs, else a single one.
fn run_of(width: usize, tensors: &[&Tensor]) -> Result<usize> {
    let Some(first) = tensors.first() else {
        return Ok(1);
    };
    let run = 16 / first.dtype().size_in_bytes();
    for tensor in tensors {
        if !width.is_multiple_of(run) || !address_of(tensor)?.is_multiple_of(16) {
            return Ok(1);
        }
    }
    Ok(run)
}

/// The gradient of the function's input `x`, from that of its output; `None` where the kernels don't take the tensor.
pub(crate) fn of_input(
    x: &Tensor,
    function: Function,
    gradient: &Tensor,
) -> Result<Option<Tensor>> {
    if !crate::cuda::takes(x) {
        return Ok(None);
    }
    let x = x.contiguous()?;
    let activation = Activation {
        device: device_of(&x)?,
        function: Some(function),
    };
    activation.of_input(&x, None, gradient).map(Some)
}

struct Activation {
    device: CudaDevice,
    function: Option<Function>,
}

impl Activation {
    fn code(&self) -> u32 {
        match self.function {
            None => 0,
            Some(Function::Relu) => 1,
            Some(Function::Gelu) => 2,
            Some(Function::Silu) => 3,
            Some(Function::GeluTanh) => 4,
            Some(Function::QuickGelu) => 5,
            Some(Function::Tanh) => 6,
            Some(Function::Sigmoid) => 7,
        }
    }

    /// Launches a kernel on tensors of one shape, the first of which is the input.
    fn launch(&self, kernel: &str, bias: Option<&Tensor>, tensors: &[&Tensor]) -> Result<()> {
        let Some((x, others)) = tensors.split_first() else {
            return Ok(());
        };
        let width = bias.map_or(x.elem_count(), Tensor::elem_count);
        let run = run_of(width, tensors)?;
        let count = x.elem_count() / run;
        let grid = Grid::threads(count)?;
        let mut arguments = vec![
            Argument::Tensor(x),
            bias.map_or(Argument::None, Argument::Tensor),
        ];
        arguments.extend(others.iter().map(|tensor| Argument::Tensor(tensor)));
        arguments.extend([
            Argument::U32(count as u32),
            Argument::U32(width as u32),
            Argument::U32(self.code()),
        ]);
        let kernel = format!("{kernel}_{}_{run}", suffix(x)?);
        let family = Family::Activations;
        launch(&self.device, (family, &kernel), grid, &arguments)
    }

    fn forward(&self, x: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let y = uninitialised(&self.device, x.shape(), x.dtype())?;
        self.launch("activate", bias, &[x, &y])?;
        Ok(y)
    }

    fn of_input(&self, x: &Tensor, bias: Option<&Tensor>, gradient: &Tensor) -> Result<Tensor> {
        let gradient = gradient.to_dtype(x.dtype())?.contiguous()?;
        let of_x = uninitialised(&self.device, x.shape(), x.dtype())?;
        self.launch("activation_gradient", bias, &[x, &gradient, &of_x])?;
        Ok(of_x)
    }

    /// Sums over all rows.
    fn column_sums(&self, gradient: &Tensor, width: usize) -> Result<Tensor> {
        let rows = gradient.elem_count() / width;
        let (segments, rows_each) = segments(rows);
        let parts = uninitialised(&self.device, (segments, width), DType::F32)?;
        launch(
            &self.device,
            (
                Family::Activations,
                &format!("column_sums_{}", suffix(gradient)?),
            ),
            Grid {
                blocks: (count_of_blocks(width, 32)?, segments as u32, 1),
                threads: (32, 8, 1),
                shared: 0,
            },
            &[
                Argument::Tensor(gradient),
                Argument::Tensor(&parts),
                Argument::U64(rows as u64),
                Argument::U32(width as u32),
                Argument::U32(rows_each as u32),
            ],
        )?;
        let sums = uninitialised(&self.device, width, DType::F32)?;
        launch(
            &self.device,
            (Family::Activations, "join_columns"),
            Grid::threads(width)?,
            &[
                Argument::Tensor(&parts),
                Argument::Tensor(&sums),
                Argument::U32(segments as u32),
                Argument::U32(width as u32),
            ],
        )?;
        Ok(sums)
    }
}
