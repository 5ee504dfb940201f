//! Windows of images as columns, so that a convolution is a matrix product; and back.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, WithDType, bail};

use super::{Number, for_floats, numbers, ready};

/// How a convolution's windows lie along the two dimensions of an image: (down, across).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The places of a window.
    pub kernel: (usize, usize),
    /// From one window to the next.
    pub stride: (usize, usize),
    /// Zeros around the image.
    pub padding: (usize, usize),
    /// From one place of a window to the next.
    pub dilation: (usize, usize),
}

impl Window {
    /// How many windows an image of (height, width) has along each dimension; none where there is no
    /// room for one.
    pub fn counts(&self, height: usize, width: usize) -> Option<(usize, usize)> {
        let count =
            |length: usize, kernel: usize, stride: usize, padding: usize, dilation: usize| {
                let reach = dilation * kernel.checked_sub(1)? + 1;
                Some(
                    (length + 2 * padding)
                        .checked_sub(reach)?
                        .checked_div(stride)?
                        + 1,
                )
            };
        let (kernel, stride) = (self.kernel, self.stride);
        let (padding, dilation) = (self.padding, self.dilation);
        Some((
            count(height, kernel.0, stride.0, padding.0, dilation.0)?,
            count(width, kernel.1, stride.1, padding.1, dilation.1)?,
        ))
    }
}

/// From (batch, channels, height, width) to (channels · kernel, batch · windows): row (c, i, j) has
/// the number at place (i, j) of each window of channel c, in the order of images and windows.
pub fn unfold2d(x: &Tensor, window: Window) -> Result<Tensor> {
    let sizes = Sizes::of(x.dims(), window)?;
    ready(x)?.apply_op1(Unfold(sizes))
}

/// Images and their windows.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    pub(super) channels: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    /// Windows down and across.
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) window: Window,
}

struct Unfold(Sizes);

/// The other way: every number is added to the place that it came from.
struct Fold(Sizes);

impl Sizes {
    pub(super) fn of(dims: &[usize], window: Window) -> Result<Sizes> {
        let &[batch, channels, height, width] = dims else {
            bail!("a convolution wants (batch, channels, height, width), found {dims:?}")
        };
        let Some((rows, columns)) = window.counts(height, width) else {
            bail!(
                "an image of {height}×{width} has no room for a window of {:?}",
                window.kernel
            )
        };
        Ok(Sizes {
            batch,
            channels,
            height,
            width,
            rows,
            columns,
            window,
        })
    }

    /// Calls `run(column of the first, place in the image of the first, step between places, count)`
    /// for every line of windows of the row (channel, i, j) that lies inside the image.
    fn lines(
        &self,
        channel: usize,
        i: usize,
        j: usize,
        mut run: impl FnMut(usize, usize, usize, usize),
    ) {
        let Window {
            stride,
            padding,
            dilation,
            ..
        } = self.window;
        // The windows across whose place j is inside: padding ≤ index · stride + offset < padding +
        // width.
        let offset = j * dilation.1;
        let first = padding.1.saturating_sub(offset).div_ceil(stride.1);
        let room = (self.width + padding.1).saturating_sub(offset);
        let end = room.div_ceil(stride.1).min(self.columns);
        if first >= end {
            return;
        }
        let begin = first * stride.1 + offset - padding.1;
        for image in 0..self.batch {
            let plane = (image * self.channels + channel) * self.height;
            for row in 0..self.rows {
                let top = (row * stride.0 + i * dilation.0).checked_sub(padding.0);
                let Some(top) = top.filter(|&top| top < self.height) else {
                    continue;
                };
                let column = (image * self.rows + row) * self.columns + first;
                run(
                    column,
                    (plane + top) * self.width + begin,
                    stride.1,
                    end - first,
                );
            }
        }
    }

    /// Calls `at(row, channel, i, j)` for every row of the columns' matrix.
    fn each_row(&self, mut at: impl FnMut(usize, usize, usize, usize)) {
        let (high, wide) = self.window.kernel;
        let mut row = 0;
        for channel in 0..self.channels {
            for i in 0..high {
                for j in 0..wide {
                    at(row, channel, i, j);
                    row += 1;
                }
            }
        }
    }

    /// Rows and columns of the matrix of windows.
    pub(super) fn matrix(&self) -> (usize, usize) {
        let (high, wide) = self.window.kernel;
        (
            self.channels * high * wide,
            self.batch * self.rows * self.columns,
        )
    }

    /// Writes the windows into a matrix; what of them lies in the padding stays as it is there.
    pub(super) fn unfold<T: Number>(&self, x: &[T], matrix: &mut [T]) {
        let (_, width) = self.matrix();
        self.each_row(|row, channel, i, j| {
            let line = &mut matrix[row * width..(row + 1) * width];
            self.lines(channel, i, j, |column, place, step, count| {
                let target = &mut line[column..column + count];
                if step == 1 {
                    target.copy_from_slice(&x[place..place + count]);
                } else {
                    for (target, x) in target.iter_mut().zip(x[place..].iter().step_by(step)) {
                        *target = *x;
                    }
                }
            });
        });
    }

    /// Adds every number of a matrix of windows to the place that it came from.
    pub(super) fn fold<T: Number>(&self, matrix: &[T], x: &mut [T]) {
        let (_, width) = self.matrix();
        self.each_row(|row, channel, i, j| {
            let line = &matrix[row * width..(row + 1) * width];
            self.lines(channel, i, j, |column, place, step, count| {
                let source = &line[column..column + count];
                if step == 1 {
                    for (x, source) in x[place..place + count].iter_mut().zip(source) {
                        *x += *source;
                    }
                } else {
                    for (x, source) in x[place..].iter_mut().step_by(step).zip(source) {
                        *x += *source;
                    }
                }
            });
        });
    }
}

impl CustomOp1 for Unfold {
    fn name(&self) -> &'static str {
        "unfold2d"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        for_floats!(storage, T => {
            let (rows, columns) = self.0.matrix();
            let mut matrix = vec![T::ZERO; rows * columns];
            self.0.unfold(numbers::<T>(storage, layout)?, &mut matrix);
            Ok((T::to_cpu_storage_owned(matrix), self.0.matrix().into()))
        })
    }

    fn bwd(&self, _x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(ready(gradient)?.apply_op1_no_bwd(&Fold(self.0))?))
    }
}

impl CustomOp1 for Fold {
    fn name(&self) -> &'static str {
        "fold2d"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let Sizes {
            batch,
            channels,
            height,
            width,
            ..
        } = self.0;
        for_floats!(storage, T => {
            let mut x = vec![T::ZERO; batch * channels * height * width];
            self.0.fold(numbers::<T>(storage, layout)?, &mut x);
            Ok((T::to_cpu_storage_owned(x), (batch, channels, height, width).into()))
        })
    }
}
