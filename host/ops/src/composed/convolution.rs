//! Convolutions: one gather of pixels, and one matrix multiplication over the whole batch.
//!
//! An image is a table of pixels, each a row of its channels. A window is a row of its taps' pixels (im2col), gathered
//! by their indices; one row of zeros stands for all taps outside. The gradient of the input is gathered too: each pixel
//! adds up the taps of the windows that it is in. So nothing is scattered, and the order of all sums is fixed.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor, bail};

use super::cast::{operand, widened};
use super::functions::relu;
use super::of;
use super::pooling::pool2d;
use crate::autograd::custom_gradient::custom_gradient;
use crate::options::{After, PoolKind, Window, Windows};
use crate::storage::tables::Tables;

/// A convolution and what comes after it; `Conv::of` has checked the shapes.
pub(crate) fn conv2d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    window: Window,
    groups: usize,
    after: After,
) -> Result<Tensor> {
    let (x, weight) = (&*operand(x)?, &*operand(weight)?);
    #[cfg(feature = "cuda")]
    if groups == 1
        && let Some(y) = crate::cuda::convolution::conv2d(x, weight, bias, window, after.relu)?
    {
        return pooled(y, after);
    }
    let output = {
        let pixels = Pixels::of(&x.detach(), window)?;
        let weight = Weight::of(&weight.detach(), groups)?;
        pixels.images(&weight.multiply(&pixels.windows()?)?)?
    };
    let convolved = custom_gradient([x, weight], output, move |[x, weight], gradient, wanted| {
        backward([x, weight], gradient, (window, groups), wanted)
    })?;
    let mut y = match bias {
        Some(bias) => of([&convolved, bias], |[y, bias]| {
            let bias = bias.reshape((1, bias.elem_count(), 1, 1))?;
            y.broadcast_add(&bias.to_dtype(y.dtype())?)
        })?,
        None => convolved,
    };
    if after.relu {
        y = of([&y], |[y]| relu(y))?;
    }
    pooled(y, after)
}

/// Squares of two by two pooled, if they come after a convolution.
fn pooled(y: Tensor, after: After) -> Result<Tensor> {
    if !after.pool {
        return Ok(y);
    }
    let pairs =
        |length: usize| Windows::sliding(length, 2, 2, 0).unwrap_or(Windows::adaptive(length, 0));
    let (down, across) = (pairs(y.dim(2)?), pairs(y.dim(3)?));
    pool2d(&y, PoolKind::Max, &down, &across)
}

/// Gradients of input and weight.
fn backward(
    [x, weight]: [&Tensor; 2],
    gradient: &Tensor,
    (window, groups): (Window, usize),
    [of_x, of_weight]: [bool; 2],
) -> Result<[Option<Tensor>; 2]> {
    let shape = weight.dims();
    let weight = Weight::of(weight, groups)?;
    let pixels = Pixels::of(x, window)?;
    // (batch · windows, outputs), as the forward pass's product.
    let gradient = gradient.flatten_from(2)?.transpose(1, 2)?.contiguous()?;
    let gradient = gradient.flatten_to(1)?;
    let of_weight = if of_weight {
        let of_weight = weight.gradient(&gradient, &pixels.windows()?)?;
        Some(of_weight.reshape(shape)?)
    } else {
        None
    };
    let of_x = if of_x {
        Some(pixels.gathered_back(&weight.multiply_back(&gradient)?)?)
    } else {
        None
    };
    Ok([of_x, of_weight])
}

/// A convolution's weight as a matrix for each group: (groups, outputs, taps · channels).
struct Weight {
    matrix: Tensor,
    groups: usize,
    outputs: usize,
    channels: usize,
    taps: usize,
}

impl Weight {
    /// Of (outputs, channels, taps …), all outputs and the channels of one group.
    fn of(weight: &Tensor, groups: usize) -> Result<Weight> {
        let (outputs, channels) = (weight.dim(0)?, weight.dim(1)?);
        let taps = weight.elem_count() / (outputs * channels).max(1);
        let matrix = weight
            .reshape((outputs, channels, taps))?
            .transpose(1, 2)?
            .reshape((groups, outputs / groups, taps * channels))?;
        Ok(Weight {
            matrix,
            groups,
            outputs,
            channels,
            taps,
        })
    }

    /// Whether each channel has a kernel of its own, so that there is nothing to multiply matrices for.
    fn is_depthwise(&self) -> bool {
        self.channels == 1 && self.outputs == self.groups
    }

    /// The kernels of a depthwise convolution: (1, taps, channels).
    fn kernels(&self) -> Result<Tensor> {
        let kernels = self.matrix.reshape((self.groups, self.taps))?;
        kernels.t()?.contiguous()?.unsqueeze(0)
    }

    /// Windows (rows, taps, groups · channels) as a matrix for each group: (groups, rows, taps · channels).
    fn of_groups(&self, windows: &Tensor) -> Result<Tensor> {
        let rows = windows.dim(0)?;
        windows
            .reshape((rows, self.taps, self.groups, self.channels))?
            .permute((2, 0, 1, 3))?
            .reshape((self.groups, rows, self.taps * self.channels))
    }

    /// Windows (rows, taps, groups · channels) times the weight: (rows, outputs).
    fn multiply(&self, windows: &Tensor) -> Result<Tensor> {
        if self.groups == 1 {
            return windows
                .flatten_from(1)?
                .matmul(&self.matrix.squeeze(0)?.t()?);
        }
        if self.is_depthwise() {
            let products = windows.broadcast_mul(&self.kernels()?)?;
            return widened(&products)?.sum(1)?.to_dtype(windows.dtype());
        }
        let y = self
            .of_groups(windows)?
            .matmul(&self.matrix.transpose(1, 2)?)?;
        y.transpose(0, 1)?.flatten_from(1)
    }

    /// The gradient of the windows, (rows, taps, groups · channels), from that of the outputs, (rows, outputs).
    fn multiply_back(&self, gradient: &Tensor) -> Result<Tensor> {
        let rows = gradient.dim(0)?;
        let all = self.groups * self.channels;
        if self.groups == 1 {
            let of_windows = gradient.matmul(&self.matrix.squeeze(0)?)?;
            return of_windows.reshape((rows, self.taps, all));
        }
        if self.is_depthwise() {
            return gradient.unsqueeze(1)?.broadcast_mul(&self.kernels()?);
        }
        let of_windows = self.outputs_of_groups(gradient)?.matmul(&self.matrix)?;
        of_windows
            .reshape((self.groups, rows, self.taps, self.channels))?
            .permute((1, 2, 0, 3))?
            .reshape((rows, self.taps, all))
    }

    /// The gradient of the weight, (outputs, channels, taps).
    fn gradient(&self, gradient: &Tensor, windows: &Tensor) -> Result<Tensor> {
        let of_matrix = if self.groups == 1 {
            gradient.t()?.matmul(&windows.flatten_from(1)?)?
        } else if self.is_depthwise() {
            let products = windows.broadcast_mul(&gradient.unsqueeze(1)?)?;
            let sums = widened(&products)?.sum(0)?.to_dtype(windows.dtype())?;
            sums.t()?.contiguous()?
        } else {
            let outputs = self.outputs_of_groups(gradient)?.transpose(1, 2)?;
            outputs.matmul(&self.of_groups(windows)?)?
        };
        of_matrix
            .reshape((self.outputs, self.taps, self.channels))?
            .transpose(1, 2)?
            .contiguous()
    }

    /// The outputs' gradient, (rows, outputs), of each group: (groups, rows, outputs of the group).
    fn outputs_of_groups(&self, gradient: &Tensor) -> Result<Tensor> {
        gradient
            .reshape((gradient.dim(0)?, self.groups, self.outputs / self.groups))?
            .transpose(0, 1)?
            .contiguous()
    }
}

/// Images as tables of pixels.
struct Pixels {
    /// (batch, pixels, channels).
    rows: Tensor,
    /// (batch, channels, height, width) of the images.
    shape: (usize, usize, usize, usize),
    taps: Arc<Taps>,
}

impl Pixels {
    fn of(x: &Tensor, window: Window) -> Result<Pixels> {
        let (batch, channels, height, width) = x.dims4()?;
        let pixels = x.reshape((batch, channels, height * width))?;
        let taps = TAPS.get((window, height, width), x.device(), |_| {
            Taps::of(window, (height, width), x.device())
        })?;
        Ok(Pixels {
            rows: pixels.transpose(1, 2)?.contiguous()?,
            shape: (batch, channels, height, width),
            taps,
        })
    }

    /// The windows of all images: (batch · windows, taps, channels).
    fn windows(&self) -> Result<Tensor> {
        let (batch, channels, ..) = self.shape;
        let taps = &self.taps;
        let rows = batch * taps.windows();
        match &taps.pixels {
            None => self.rows.reshape((rows, 1, channels)),
            Some(table) => {
                let gathered = table.gather(&self.rows)?;
                gathered.reshape((rows, taps.count, channels))
            }
        }
    }

    /// The gradient of the images, from that of their windows, (batch · windows, taps, channels).
    fn gathered_back(&self, gradient: &Tensor) -> Result<Tensor> {
        let (batch, channels, height, width) = self.shape;
        let taps = &self.taps;
        let of_pixels = match &taps.covers {
            None => gradient.reshape((batch, height * width, channels))?,
            Some(table) => {
                let of_windows = (batch, taps.windows() * taps.count, channels);
                let gathered = table.gather(&gradient.reshape(of_windows)?)?;
                let covers = table.count / (height * width).max(1);
                let gathered = gathered.reshape((batch, height * width, covers, channels))?;
                let sums = widened(&gathered)?.sum(2)?;
                sums.to_dtype(gradient.dtype())?
            }
        };
        of_pixels
            .transpose(1, 2)?
            .reshape((batch, channels, height, width))
    }

    /// Outputs of the windows, (batch · windows, outputs), as images.
    fn images(&self, y: &Tensor) -> Result<Tensor> {
        let (batch, outputs) = (self.shape.0, y.dim(1)?);
        let (rows, columns) = (self.taps.rows, self.taps.columns);
        y.reshape((batch, rows * columns, outputs))?
            .transpose(1, 2)?
            .contiguous()?
            .reshape((batch, outputs, rows, columns))
    }
}

/// Which pixels windows consist of, and in which windows a pixel is.
struct Taps {
    /// Windows down and across.
    rows: usize,
    columns: usize,
    /// Taps of a window.
    count: usize,
    /// Pixels of (windows, taps); none where each pixel is a window of its own.
    pixels: Option<Table>,
    /// Taps of windows, in their order, of (pixels, covers); none where each pixel is a window of its own.
    covers: Option<Table>,
}

static TAPS: Tables<(Window, usize, usize), Taps> = Tables::new();

impl Taps {
    fn of(window: Window, (height, width): (usize, usize), device: &Device) -> Result<Taps> {
        let (rows, columns) = window.counts(height, width).unwrap_or((0, 0));
        let count = window.kernel.0 * window.kernel.1;
        let (pixels, windows) = (height * width, rows * columns);
        if count == 1 && window.stride == (1, 1) && window.padding == (0, 0) {
            return Ok(Taps {
                rows,
                columns,
                count,
                pixels: None,
                covers: None,
            });
        }
        let mut indices = Vec::with_capacity(windows * count);
        let mut covers = vec![Vec::new(); pixels];
        for row in 0..rows {
            for column in 0..columns {
                for tap in 0..count {
                    let (i, j) = (tap / window.kernel.1, tap % window.kernel.1);
                    let pixel = window.pixel((row, column), (i, j), (height, width));
                    if let Some(covers) = pixel.and_then(|pixel| covers.get_mut(pixel)) {
                        covers.push(indices.len());
                    }
                    indices.push(pixel);
                }
            }
        }
        let most = covers.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let covers = covers.into_iter().flat_map(|covers| {
            let outside = most - covers.len();
            let inside = covers.into_iter().map(Some);
            inside.chain(std::iter::repeat_n(None, outside))
        });
        Ok(Taps {
            rows,
            columns,
            count,
            covers: Some(Table::of(covers.collect(), windows * count, device)?),
            pixels: Some(Table::of(indices, pixels, device)?),
        })
    }

    fn windows(&self) -> usize {
        self.rows * self.columns
    }
}

/// First rows of the images of a batch, by its size and that of an image.
static STARTS: Tables<(usize, usize), Tensor> = Tables::new();

/// Indices of rows that are gathered, the same for each image of a batch.
struct Table {
    /// (indices).
    indices: Tensor,
    count: usize,
    /// Rows of an image, without the one of zeros.
    rows: usize,
    /// Whether some index is that of a row of zeros after the image's own.
    has_outside: bool,
}

impl Table {
    fn of(indices: Vec<Option<usize>>, rows: usize, device: &Device) -> Result<Table> {
        let has_outside = indices.iter().any(Option::is_none);
        let count = indices.len();
        let indices = indices
            .into_iter()
            .map(|index| index.unwrap_or(rows) as u32);
        Ok(Table {
            indices: Tensor::new(indices.collect::<Vec<u32>>(), device)?,
            count,
            rows,
            has_outside,
        })
    }

    /// Gathers rows of (batch, rows, width): (batch · indices, width).
    fn gather(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, _, width) = x.dims3()?;
        let each = self.rows + usize::from(self.has_outside);
        if u32::try_from(batch * each).is_err() {
            bail!("a convolution of {batch} images of this size has more than 2³² rows")
        }
        let x = if self.has_outside {
            let zeros = Tensor::zeros((batch, 1, width), x.dtype(), x.device())?;
            Tensor::cat(&[x, &zeros], 1)?.contiguous()?
        } else {
            x.contiguous()?
        };
        let starts = STARTS.get((batch, each), x.device(), |_| {
            let starts = (0..batch).map(|image| (image * each) as u32);
            Tensor::from_vec(starts.collect::<Vec<u32>>(), (batch, 1), x.device())
        })?;
        let indices = self.indices.unsqueeze(0)?.broadcast_add(&starts)?;
        x.reshape((batch * each, width))?
            .index_select(&indices.flatten_all()?, 0)
    }
}
