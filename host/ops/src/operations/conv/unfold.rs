//! Windows of images as columns (im2col), so that a convolution is a matrix multiplication; and back.

use std::ops::Range;

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor, WithDType, bail};

use crate::composed;
use crate::options::{UnfoldSizes, Window};
use crate::storage::{Number, for_floats, numbers, ready};
use crate::vectorised;

/// Unfolds (batch, channels, height, width) to (channels · kernel, batch · windows).
///
/// Row (c, i, j) has the element at tap (i, j) of each window of channel c, in the order of images and windows.
pub fn unfold2d(x: &Tensor, window: Window) -> Result<Tensor> {
    let sizes = UnfoldSizes::of(x.dims(), window)?;
    if composed::is_chosen(x) {
        return composed::unfold2d(x, window);
    }
    ready(x)?.apply_op1(Unfold(sizes))
}

/// The inverse direction (col2im): adds every element of a matrix of windows to the position of an image (batch, channels, height, width)
/// that [`unfold2d`] takes it from.
pub(super) fn fold2d(windows: &Tensor, image: [usize; 4], window: Window) -> Result<Tensor> {
    let sizes = UnfoldSizes::of(&image, window)?;
    if windows.dims() != [sizes.matrix().0, sizes.matrix().1] {
        bail!("windows {:?} of images {image:?}", windows.dims())
    }
    if composed::is_chosen(windows) {
        return fold_by_indices(windows, image, (sizes.rows, sizes.columns), window);
    }
    ready(windows)?.apply_op1_no_bwd(&Fold(sizes))
}

struct Unfold(UnfoldSizes);

/// The inverse direction (col2im): adds every element to the position that it came from.
struct Fold(UnfoldSizes);

impl UnfoldSizes {
    /// Calls `at(image, line of the matrix, block)` for each tap (i, j) and each image.
    ///
    /// `block` covers the windows of all channels, and `line` is that of the first channel.
    fn each_block(&self, mut at: impl FnMut(usize, usize, &Block)) {
        let (high, wide) = self.window.kernel;
        for i in 0..high {
            for j in 0..wide {
                if let Some(block) = self.block(i, j) {
                    for image in 0..self.batch {
                        at(image, i * wide + j, &block);
                    }
                }
            }
        }
    }

    /// The windows of an image whose tap (i, j) lies inside it; `None` if there are none.
    fn block(&self, i: usize, j: usize) -> Option<Block> {
        let Window {
            kernel,
            stride,
            padding,
            dilation,
        } = self.window;
        let (down, across) = ((self.rows, stride.0), (self.columns, stride.1));
        let (rows, top) = inside(down, i * dilation.0, padding.0, self.height)?;
        let (columns, left) = inside(across, j * dilation.1, padding.1, self.width)?;
        let (_, line) = self.matrix();
        Some(Block {
            planes: self.channels,
            rows: rows.len(),
            columns: columns.len(),
            window: rows.start * self.columns + columns.start,
            next_window: (kernel.0 * kernel.1 * line, self.columns),
            place: top * self.width + left,
            next_place: (self.height * self.width, stride.0 * self.width, stride.1),
        })
    }

    /// Writes the windows into a matrix; elements for the padding stay unchanged.
    pub(crate) fn unfold<T: Number>(&self, x: &[T], matrix: &mut [T]) {
        self.each_block(|image, line, block| {
            let (start, window) = self.starts(image, line);
            copy_block(&x[start..], &mut matrix[window..], block);
        });
    }

    /// Adds every element of a matrix of windows to the position that it came from.
    pub(crate) fn fold<T: Number>(&self, matrix: &[T], x: &mut [T]) {
        self.each_block(|image, line, block| {
            let (start, window) = self.starts(image, line);
            add_block(&mut x[start..], &matrix[window..], block);
        });
    }

    /// Start of an image's elements, and of its windows in a line of the matrix.
    fn starts(&self, image: usize, line: usize) -> (usize, usize) {
        let (_, width) = self.matrix();
        let start = image * self.channels * self.height * self.width;
        (start, line * width + image * self.rows * self.columns)
    }
}

/// Elements at one tap of the windows of an image, in all its channels.
struct Block {
    planes: usize,
    rows: usize,
    columns: usize,
    /// Index of the first window; `next_window`: strides to that of the next plane and of the next row.
    window: usize,
    next_window: (usize, usize),
    /// Index of the first element; `next_place`: strides to that of the next plane, row and column.
    place: usize,
    next_place: (usize, usize, usize),
}

impl Block {
    /// Index of the first window of every row, and of its element.
    fn each_row(&self) -> impl Iterator<Item = (usize, usize)> {
        let (windows, elements) = (self.next_window, self.next_place);
        let starts = (0..self.planes).map(move |plane| {
            (
                self.window + plane * windows.0,
                self.place + plane * elements.0,
            )
        });
        starts.flat_map(move |first| {
            (0..self.rows).map(move |row| (first.0 + row * windows.1, first.1 + row * elements.1))
        })
    }
}

/// Windows, of `count` with this stride, whose tap at `offset` lies inside an image of this length.
///
/// The second value is the position of the first one's tap.
fn inside(
    (count, stride): (usize, usize),
    offset: usize,
    padding: usize,
    length: usize,
) -> Option<(Range<usize>, usize)> {
    // padding ≤ index · stride + offset < padding + length.
    let first = padding.saturating_sub(offset).div_ceil(stride);
    let room = (length + padding).saturating_sub(offset);
    let end = room.div_ceil(stride).min(count);
    (first < end).then(|| (first..end, first * stride + offset - padding))
}

/// Elements moved at once: lines of windows are too short for a call each.
const LANES: usize = 8;

vectorised! {
    /// Copies a block of an image into lines of windows.
    fn copy_block<T: Number>(x: &[T], matrix: &mut [T], block: &Block) {
        let (count, step) = (block.columns, block.next_place.2);
        for (window, place) in block.each_row() {
            let target = &mut matrix[window..window + count];
            if step == 1 {
                let mut target = target.chunks_exact_mut(LANES);
                let mut x = x[place..place + count].chunks_exact(LANES);
                for (target, x) in target.by_ref().zip(x.by_ref()) {
                    let mut lanes = [T::ZERO; LANES];
                    lanes.copy_from_slice(x);
                    target.copy_from_slice(&lanes);
                }
                for (target, &x) in target.into_remainder().iter_mut().zip(x.remainder()) {
                    *target = x;
                }
            } else {
                for (target, &x) in target.iter_mut().zip(x[place..].iter().step_by(step)) {
                    *target = x;
                }
            }
        }
    }
}

vectorised! {
    /// Adds lines of windows to a block of an image.
    fn add_block<T: Number>(x: &mut [T], matrix: &[T], block: &Block) {
        let (count, step) = (block.columns, block.next_place.2);
        for (window, place) in block.each_row() {
            let source = &matrix[window..window + count];
            if step == 1 {
                let mut x = x[place..place + count].chunks_exact_mut(LANES);
                let mut source = source.chunks_exact(LANES);
                for (x, source) in x.by_ref().zip(source.by_ref()) {
                    for lane in 0..LANES {
                        x[lane] += source[lane];
                    }
                }
                for (x, &source) in x.into_remainder().iter_mut().zip(source.remainder()) {
                    *x += source;
                }
            } else {
                for (x, &source) in x[place..].iter_mut().step_by(step).zip(source) {
                    *x += source;
                }
            }
        }
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
        let UnfoldSizes {
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

/// [`fold2d`] by the indices of the elements' places in images with their padding.
pub(super) fn fold_by_indices(
    windows: &Tensor,
    [batch, channels, height, width]: [usize; 4],
    (rows, columns): (usize, usize),
    window: Window,
) -> Result<Tensor> {
    let Window {
        kernel,
        stride,
        padding,
        dilation,
    } = window;
    let padded = (height + 2 * padding.0, width + 2 * padding.1);
    let mut places = Vec::with_capacity(windows.elem_count());
    for channel in 0..channels {
        for tap in 0..kernel.0 * kernel.1 {
            let (i, j) = (tap / kernel.1 * dilation.0, tap % kernel.1 * dilation.1);
            for image in 0..batch {
                let plane = (image * channels + channel) * padded.0;
                for row in 0..rows {
                    let line = (plane + row * stride.0 + i) * padded.1 + j;
                    places.extend((0..columns).map(|column| (line + column * stride.1) as u32));
                }
            }
        }
    }
    let count = places.len();
    let places = Tensor::from_vec(places, count, windows.device())?.to_dtype(DType::U32)?;
    let size = batch * channels * padded.0 * padded.1;
    let image = Tensor::zeros(size, windows.dtype(), windows.device())?;
    let image = image.index_add(&places, &windows.flatten_all()?.contiguous()?, 0)?;
    let image = image.reshape((batch, channels, padded.0, padded.1))?;
    image
        .narrow(2, padding.0, height)?
        .narrow(3, padding.1, width)?
        .contiguous()
}
