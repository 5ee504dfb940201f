//! Convolutions of whole batches by one product each, between the kernels of `host/ops/cuda/convolution.cu`.

use candle_core::{CudaDevice, DType, Result, Tensor};

use crate::autograd::custom_gradient::custom_gradient_of_output;
use crate::cuda::compilation::sources::Family;
use crate::cuda::launch::{
    Argument, Grid, THREADS, count_of_blocks, device_of, launch, suffix, uninitialised,
};
use crate::options::{UnfoldSizes, Window};

/// x (batch, channels, height, width) convolved by (outputs, channels, taps down, taps across), a bias of each output added, and `ReLU`;
/// `None` where the kernels don't take the tensors.
pub(crate) fn conv2d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    window: Window,
    with_relu: bool,
) -> Result<Option<Tensor>> {
    let is_taken = crate::cuda::takes(x)
        && weight.dtype() == x.dtype()
        && bias.is_none_or(|bias| bias.dtype() == DType::F32);
    if !is_taken {
        return Ok(None);
    }
    let sizes = UnfoldSizes::of(x.dims(), window)?;
    let count = sizes.batch * sizes.rows * sizes.columns;
    let pixels = sizes.batch * sizes.height * sizes.width;
    let outputs = weight.dim(0)?;
    // Numbers of the kernels, and of a grid's second dimension.
    let fits = count.max(pixels) < 1 << 31 && outputs.max(sizes.channels) < 1 << 16;
    if !fits || count == 0 || outputs == 0 {
        return Ok(None);
    }
    let convolution = Convolution {
        device: device_of(x)?,
        sizes,
        count,
        pixels,
        outputs,
        with_relu,
    };
    let (x, weight) = (x.contiguous()?, weight.contiguous()?);
    let Some(bias) = bias else {
        let y = convolution.forward(&x, &weight, None)?;
        let backward = move |[x, weight]: [&Tensor; 2],
                             y: &Tensor,
                             gradient: &Tensor,
                             [of_x, of_weight]: [bool; 2]| {
            let rows = convolution.rows_of(y, gradient)?;
            let [of_x, of_weight, _] =
                convolution.backward(x, weight, &rows, [of_x, of_weight, false])?;
            Ok([of_x, of_weight])
        };
        return custom_gradient_of_output([&x, &weight], y, Box::new(backward)).map(Some);
    };
    let y = convolution.forward(&x, &weight, Some(&bias.contiguous()?))?;
    let backward =
        move |[x, weight, _]: [&Tensor; 3], y: &Tensor, gradient: &Tensor, wanted: [bool; 3]| {
            let rows = convolution.rows_of(y, gradient)?;
            convolution.backward(x, weight, &rows, wanted)
        };
    custom_gradient_of_output([&x, &weight, bias], y, Box::new(backward)).map(Some)
}

struct Convolution {
    device: CudaDevice,
    sizes: UnfoldSizes,
    /// Windows of all images.
    count: usize,
    /// Pixels of all images, of one channel.
    pixels: usize,
    outputs: usize,
    with_relu: bool,
}

impl Convolution {
    /// Launches a kernel with a thread for each of `threads` elements of each of `of` channels or outputs.
    fn launch(
        &self,
        kernel: &str,
        dtype_of: &Tensor,
        (threads, of): (usize, usize),
        arguments: &[Argument<'_>],
    ) -> Result<()> {
        let grid = Grid {
            blocks: (
                count_of_blocks(threads, THREADS as usize)?,
                count_of_blocks(of, 1)?,
                1,
            ),
            ..Grid::blocks(1)
        };
        let kernel = format!("{kernel}_{}", suffix(dtype_of)?);
        launch(
            &self.device,
            (Family::Convolution, &kernel),
            grid,
            arguments,
        )
    }

    /// The arguments that the sources call geometry.
    fn geometry<'a>(&self) -> [Argument<'a>; 12] {
        let UnfoldSizes {
            height,
            width,
            rows,
            columns,
            window,
            ..
        } = self.sizes;
        let (kernel, stride) = (window.kernel, window.stride);
        let (padding, dilation) = (window.padding, window.dilation);
        [
            height, width, rows, columns, kernel.0, kernel.1, stride.0, stride.1, padding.0,
            padding.1, dilation.0, dilation.1,
        ]
        .map(|size| Argument::U32(size as u32))
    }

    fn windows(&self) -> u32 {
        (self.sizes.rows * self.sizes.columns) as u32
    }

    /// Channels times taps.
    fn depth(&self) -> usize {
        let taps = self.sizes.window.kernel;
        self.sizes.channels * taps.0 * taps.1
    }

    /// Windows as columns: (channels · taps, batch · windows).
    fn columns(&self, x: &Tensor) -> Result<Tensor> {
        let columns = uninitialised(&self.device, (self.depth(), self.count), x.dtype())?;
        let mut arguments = vec![
            Argument::Tensor(x),
            Argument::Tensor(&columns),
            Argument::U32(self.count as u32),
            Argument::U32(self.sizes.channels as u32),
        ];
        arguments.extend(self.geometry());
        let threads = (self.count, self.sizes.channels);
        self.launch("unfold", x, threads, &arguments)?;
        Ok(columns)
    }

    fn forward(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        let weight = weight.detach().reshape((self.outputs, self.depth()))?;
        let rows = weight.matmul(&self.columns(&x.detach())?)?;
        let UnfoldSizes {
            batch,
            rows: down,
            columns: across,
            ..
        } = self.sizes;
        let y = uninitialised(&self.device, (batch, self.outputs, down, across), x.dtype())?;
        let arguments = [
            Argument::Tensor(&rows),
            bias.map_or(Argument::None, Argument::Tensor),
            Argument::Tensor(&y),
            Argument::U32(self.count as u32),
            Argument::U32(self.windows()),
            Argument::U32(u32::from(self.with_relu)),
        ];
        self.launch("as_images", x, (self.count, self.outputs), &arguments)?;
        Ok(y)
    }

    /// The gradient of the products, (outputs, batch · windows).
    fn rows_of(&self, y: &Tensor, gradient: &Tensor) -> Result<Tensor> {
        let gradient = gradient.to_dtype(y.dtype())?.contiguous()?;
        let y = y.contiguous()?;
        let rows = uninitialised(&self.device, (self.outputs, self.count), y.dtype())?;
        let of_relu = if self.with_relu {
            Argument::Tensor(&y)
        } else {
            Argument::None
        };
        let arguments = [
            Argument::Tensor(&gradient),
            of_relu,
            Argument::Tensor(&rows),
            Argument::U32(self.count as u32),
            Argument::U32(self.windows()),
        ];
        self.launch("as_rows", &y, (self.count, self.outputs), &arguments)?;
        Ok(rows)
    }

    /// Gradients of input, weight and bias, as wanted.
    fn backward(
        &self,
        x: &Tensor,
        weight: &Tensor,
        rows: &Tensor,
        [of_x, of_weight, of_bias]: [bool; 3],
    ) -> Result<[Option<Tensor>; 3]> {
        let of_weight = if of_weight {
            let product = rows.matmul(&self.columns(x)?.t()?)?;
            Some(product.reshape(weight.shape())?)
        } else {
            None
        };
        let of_x = if of_x {
            let weight = weight.reshape((self.outputs, self.depth()))?;
            Some(self.folded(&weight.t()?.matmul(rows)?, x)?)
        } else {
            None
        };
        let of_bias = of_bias.then(|| self.row_sums(rows)).transpose()?;
        Ok([of_x, of_weight, of_bias])
    }

    /// Columns as images again, where they overlap added up.
    fn folded(&self, columns: &Tensor, x: &Tensor) -> Result<Tensor> {
        let images = uninitialised(&self.device, x.shape(), x.dtype())?;
        let mut arguments = vec![
            Argument::Tensor(columns),
            Argument::Tensor(&images),
            Argument::U32(self.count as u32),
            Argument::U32(self.pixels as u32),
            Argument::U32(self.sizes.channels as u32),
        ];
        arguments.extend(self.geometry());
        let threads = (self.pixels, self.sizes.channels);
        self.launch("fold", x, threads, &arguments)?;
        Ok(images)
    }

    fn row_sums(&self, rows: &Tensor) -> Result<Tensor> {
        /// Elements of a block.
        const EACH: usize = 8192;
        let segments = self.count.div_ceil(EACH);
        let parts = uninitialised(&self.device, (segments, self.outputs), DType::F32)?;
        let arguments = [
            Argument::Tensor(rows),
            Argument::Tensor(&parts),
            Argument::U32(self.count as u32),
            Argument::U32(EACH as u32),
        ];
        let threads = (segments * THREADS as usize, self.outputs);
        self.launch("row_sums", rows, threads, &arguments)?;
        let sums = uninitialised(&self.device, self.outputs, DType::F32)?;
        launch(
            &self.device,
            (Family::Convolution, "join_rows"),
            Grid::threads(self.outputs)?,
            &[
                Argument::Tensor(&parts),
                Argument::Tensor(&sums),
                Argument::U32(segments as u32),
                Argument::U32(self.outputs as u32),
            ],
        )?;
        Ok(sums)
    }
}
