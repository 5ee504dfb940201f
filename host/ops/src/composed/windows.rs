//! Convolutions and pooling: the elements of each window are gathered by their indices in the image.

use candle_core::{D, DType, Device, Result, Tensor};

use super::functions::relu;
use super::of;
use crate::conv::After;
use crate::pool::{PoolKind, Windows};
use crate::unfold::Window;

/// Index of the element beside an image's own, which is not in the image.
struct Outside(u32);

/// A tensor of (images, elements) with one element more, of this value.
fn with_outside(planes: &Tensor, value: f64) -> Result<(Tensor, Outside)> {
    let (images, elements) = planes.dims2()?;
    let outside =
        Tensor::full(value as f32, (images, 1), planes.device())?.to_dtype(planes.dtype())?;
    Ok((
        Tensor::cat(&[planes, &outside], 1)?,
        Outside(elements as u32),
    ))
}

/// Indices of a window's taps in an image of (height, width): (taps, windows).
fn taps(
    window: Window,
    (height, width): (usize, usize),
    outside: u32,
    device: &Device,
) -> Result<(Tensor, usize, usize)> {
    let (rows, columns) = window.counts(height, width).unwrap_or((0, 0));
    let place = |tap: usize,
                 index: usize,
                 stride: usize,
                 padding: usize,
                 dilation: usize,
                 length: usize| {
        (index * stride + tap * dilation)
            .checked_sub(padding)
            .filter(|place| *place < length)
    };
    let mut indices = Vec::new();
    for i in 0..window.kernel.0 {
        for j in 0..window.kernel.1 {
            for row in 0..rows {
                let down = place(
                    i,
                    row,
                    window.stride.0,
                    window.padding.0,
                    window.dilation.0,
                    height,
                );
                for column in 0..columns {
                    let across = place(
                        j,
                        column,
                        window.stride.1,
                        window.padding.1,
                        window.dilation.1,
                        width,
                    );
                    let both = down.zip(across);
                    indices.push(
                        both.map_or(outside, |(down, across)| (down * width + across) as u32),
                    );
                }
            }
        }
    }
    Ok((Tensor::new(indices, device)?, rows, columns))
}

/// The windows of (batch, channels, height, width): (batch, channels · taps, windows).
fn unfolded(x: &Tensor, window: Window) -> Result<(Tensor, usize, usize)> {
    let (batch, channels, height, width) = x.dims4()?;
    let planes = x.reshape((batch * channels, height * width))?;
    let (planes, Outside(outside)) = with_outside(&planes, 0.0)?;
    let (indices, rows, columns) = taps(window, (height, width), outside, x.device())?;
    let taps = window.kernel.0 * window.kernel.1;
    let gathered = planes.index_select(&indices, 1)?;
    Ok((
        gathered.reshape((batch, channels * taps, rows * columns))?,
        rows,
        columns,
    ))
}

/// Unfolds (batch, channels, height, width) to (channels · kernel, batch · windows).
pub(crate) fn unfold2d(x: &Tensor, window: Window) -> Result<Tensor> {
    of([x], |[x]| {
        let (columns, ..) = unfolded(x, window)?;
        let (batch, depth, windows) = columns.dims3()?;
        columns.transpose(0, 1)?.reshape((depth, batch * windows))
    })
}

/// A convolution and what comes after it; `Conv::of` has checked the shapes.
pub(crate) fn conv2d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    window: Window,
    groups: usize,
    after: After,
) -> Result<Tensor> {
    let convolved = of([x, weight], |[x, weight]| {
        let (batch, outputs) = (x.dim(0)?, weight.dim(0)?);
        let (columns, rows, across) = unfolded(x, window)?;
        let (_, depth, windows) = columns.dims3()?;
        let depth = depth / groups;
        let each = outputs / groups;
        let columns = columns.reshape((batch, groups, depth, windows))?;
        let weight = weight.reshape((1, groups, each, depth))?;
        let weight = weight
            .broadcast_as((batch, groups, each, depth))?
            .contiguous()?;
        weight
            .matmul(&columns)?
            .reshape((batch, outputs, rows, across))
    })?;
    let mut y = match bias {
        Some(bias) => of([&convolved, bias], |[y, bias]| {
            y.broadcast_add(&bias.reshape((1, bias.elem_count(), 1, 1))?)
        })?,
        None => convolved,
    };
    if after.relu {
        y = of([&y], |[y]| relu(y))?;
    }
    if after.pool {
        let pairs = |length: usize| {
            Windows::sliding(length, 2, 2, 0).unwrap_or(Windows::adaptive(length, 0))
        };
        let (down, across) = (pairs(y.dim(2)?), pairs(y.dim(3)?));
        y = pool2d(&y, PoolKind::Max, &down, &across)?;
    }
    Ok(y)
}

/// Pools the last two dimensions.
pub(crate) fn pool2d(
    x: &Tensor,
    kind: PoolKind,
    down: &Windows,
    across: &Windows,
) -> Result<Tensor> {
    of([x], |[x]| {
        let (height, width) = (x.dim(D::Minus2)?, x.dim(D::Minus1)?);
        let mut shape = x.dims().to_vec();
        shape.truncate(shape.len() - 2);
        let images: usize = shape.iter().product();
        shape.extend([down.count(), across.count()]);
        let planes = x.reshape((images, height * width))?;
        let windows = Gathered::of(down, across, width, (height * width) as u32);
        let pooled = match kind {
            PoolKind::Max => windows.largest(&planes),
            PoolKind::Mean => windows.mean(&planes),
        };
        pooled?.reshape(shape)
    })
}

/// The elements of each window, filled up with the one outside the image to the size of the largest window.
struct Gathered {
    /// (windows, most).
    indices: Vec<u32>,
    most: usize,
    /// 1 / number of elements, with padding.
    shares: Vec<f64>,
}

impl Gathered {
    fn of(down: &Windows, across: &Windows, width: usize, outside: u32) -> Gathered {
        let longest = |windows: &Windows| windows.spans().map(|(start, end, _)| end - start).max();
        let most = longest(down).unwrap_or(0) * longest(across).unwrap_or(0);
        let (mut indices, mut shares) = (Vec::new(), Vec::new());
        for (top, bottom, high) in down.spans() {
            for (left, right, wide) in across.spans() {
                let end = indices.len() + most;
                for row in top..bottom {
                    indices.extend((left..right).map(|column| (row * width + column) as u32));
                }
                indices.resize(end, outside);
                shares.push(1.0 / (high * wide) as f64);
            }
        }
        Gathered {
            indices,
            most,
            shares,
        }
    }

    /// The windows' elements of (images, elements): (images, windows, most).
    fn values(&self, planes: &Tensor) -> Result<Tensor> {
        let indices = Tensor::new(&self.indices[..], planes.device())?;
        let images = planes.dim(0)?;
        planes
            .index_select(&indices, 1)?
            .reshape((images, self.shares.len(), self.most))
    }

    fn mean(&self, planes: &Tensor) -> Result<Tensor> {
        let (planes, _) = with_outside(planes, 0.0)?;
        let shares = Tensor::new(&self.shares[..], planes.device())?.to_dtype(planes.dtype())?;
        self.values(&planes)?.sum(2)?.broadcast_mul(&shares)
    }

    /// The largest element of each window; the gradient goes to the first of equal ones, and a NaN wins.
    fn largest(&self, planes: &Tensor) -> Result<Tensor> {
        let (all, _) = with_outside(&planes.detach(), f64::NEG_INFINITY)?;
        let values = self.values(&all)?;
        let largest = values.max_keepdim(2)?;
        let is_largest = values.broadcast_eq(&largest)?;
        let is_nan = values.ne(&values)?;
        // The first gets the highest mark, so that no device has to decide between equal ones, and a NaN, which equals
        // nothing, a higher one than any number.
        let marks: Vec<f32> = (0..self.most).map(|tap| (self.most - tap) as f32).collect();
        let marks = Tensor::new(marks, planes.device())?;
        let of_largest = is_largest.to_dtype(DType::F32)?.broadcast_mul(&marks)?;
        let of_nan = (is_nan.to_dtype(DType::F32)?).broadcast_mul(&(marks + self.most as f64)?)?;
        let first = (of_largest + of_nan)?.argmax(2)?;
        // The place of each window's chosen tap in the image.
        let indices = Tensor::new(&self.indices[..], planes.device())?;
        let windows = self.shares.len();
        let indices = indices.reshape((1, windows, self.most))?;
        let images = planes.dim(0)?;
        let indices = indices
            .broadcast_as((images, windows, self.most))?
            .contiguous()?;
        let chosen = indices
            .gather(&first.unsqueeze(2)?.contiguous()?, 2)?
            .squeeze(2)?;
        planes.gather(&chosen.contiguous()?, 1)
    }
}
