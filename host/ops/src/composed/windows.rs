//! Windows of images as columns: the elements of each window are gathered by their indices in the image.

use candle_core::{Device, Result, Tensor};

use super::of;
use crate::options::Window;

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
    let mut indices = Vec::new();
    for tap in 0..window.kernel.0 * window.kernel.1 {
        let tap = (tap / window.kernel.1, tap % window.kernel.1);
        for row in 0..rows {
            for column in 0..columns {
                let pixel = window.pixel((row, column), tap, (height, width));
                indices.push(pixel.map_or(outside, |pixel| pixel as u32));
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
