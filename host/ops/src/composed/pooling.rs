//! Pooling: windows tap by tap, each tap gathered from all images at once.
//!
//! Gradients are gathered as well: each pixel adds up those of the windows that it is in, or, with a maximum, of those
//! whose largest element it is.

use candle_core::{D, DType, Device, Result, Tensor};

use super::cast::widened;
use crate::autograd::custom_gradient::custom_gradient;
use crate::options::{PoolKind, Windows};
use crate::storage::tables::Tables;

/// Pools the last two dimensions.
pub(crate) fn pool2d(
    x: &Tensor,
    kind: PoolKind,
    down: &Windows,
    across: &Windows,
) -> Result<Tensor> {
    own_kernel!(crate::cuda::pooling::pool2d(x, kind, down, across));
    let (height, width) = (x.dim(D::Minus2)?, x.dim(D::Minus1)?);
    let mut shape = x.dims().to_vec();
    shape.truncate(shape.len() - 2);
    let images: usize = shape.iter().product();
    shape.extend([down.count(), across.count()]);
    let key = (down.clone(), across.clone(), height, width);
    let windows = POOLED.get(key, x.device(), |_| {
        Pooled::of(down, across, (height, width), x.device())
    })?;
    let pixels = height * width;
    let planes = x.detach().reshape((images, pixels))?;
    match kind {
        PoolKind::Mean => {
            let y = windows.mean(&planes)?.reshape(shape)?;
            custom_gradient([x], y, move |[x], gradient, _| {
                let gradient = gradient.reshape((images, windows.count()))?;
                let of_planes = windows.mean_back(&gradient)?;
                Ok([Some(of_planes.reshape(x.dims())?)])
            })
        }
        PoolKind::Max => {
            let (y, largest) = windows.largest(&planes)?;
            custom_gradient([x], y.reshape(shape)?, move |[x], gradient, _| {
                let gradient = gradient.reshape((images, windows.count()))?;
                let of_planes = windows.largest_back(&gradient, &largest)?;
                Ok([Some(of_planes.reshape(x.dims())?)])
            })
        }
    }
}

/// Which pixels windows consist of, and in which windows a pixel is.
struct Pooled {
    /// For each tap, the pixel of each window; where a window has fewer taps than others, the one after the image.
    taps: Vec<Tensor>,
    has_outside: bool,
    /// For each of the windows that a pixel is in, its index; where a pixel is in fewer than others, the one after all.
    covers: Vec<Tensor>,
    has_uncovered: bool,
    /// 1 / number of elements of each window, with padding: (1, windows).
    shares: Tensor,
    /// The index of each pixel: (1, pixels).
    own: Tensor,
}

static POOLED: Tables<(Windows, Windows, usize, usize), Pooled> = Tables::new();

impl Pooled {
    fn of(
        down: &Windows,
        across: &Windows,
        (height, width): (usize, usize),
        device: &Device,
    ) -> Result<Pooled> {
        let pixels = height * width;
        let (mut windows, mut shares) = (Vec::new(), Vec::new());
        let mut covers = vec![Vec::new(); pixels];
        for (top, bottom, high) in down.spans() {
            for (left, right, wide) in across.spans() {
                let rows = (top..bottom)
                    .flat_map(|row| (left..right).map(move |column| (row * width + column) as u32));
                let window: Vec<u32> = rows.collect();
                for &pixel in &window {
                    if let Some(covers) = covers.get_mut(pixel as usize) {
                        covers.push(windows.len() as u32);
                    }
                }
                windows.push(window);
                shares.push(1.0 / (high * wide).max(1) as f64);
            }
        }
        let count = windows.len();
        let (taps, has_outside) = columns(&windows, pixels as u32, device)?;
        let (covers, has_uncovered) = columns(&covers, count as u32, device)?;
        Ok(Pooled {
            taps,
            has_outside,
            covers,
            has_uncovered,
            shares: Tensor::from_vec(shares, (1, count), device)?,
            own: Tensor::arange(0, pixels as u32, device)?.unsqueeze(0)?,
        })
    }

    fn count(&self) -> usize {
        self.shares.elem_count()
    }

    /// Each window's mean of (images, pixels): (images, windows).
    fn mean(&self, planes: &Tensor) -> Result<Tensor> {
        let planes = with_last(planes, self.has_outside, 0.0)?;
        let sums = sum_of(&planes, &self.taps)?;
        let shares = self.shares.to_dtype(sums.dtype())?;
        sums.broadcast_mul(&shares)?.to_dtype(planes.dtype())
    }

    /// The gradient of the planes, from that of the windows' means.
    fn mean_back(&self, gradient: &Tensor) -> Result<Tensor> {
        let shares = self.shares.to_dtype(gradient.dtype())?;
        let each = gradient.broadcast_mul(&shares)?;
        let each = with_last(&each, self.has_uncovered, 0.0)?;
        sum_of(&each, &self.covers)?.to_dtype(gradient.dtype())
    }

    /// Each window's largest element, and the pixel that it is: the first of equal ones, and the first NaN, if any.
    fn largest(&self, planes: &Tensor) -> Result<(Tensor, Tensor)> {
        let images = planes.dim(0)?;
        let planes = with_last(planes, self.has_outside, f64::NEG_INFINITY)?;
        let shape = (images, self.count());
        let mut largest: Option<(Tensor, Tensor)> = None;
        for tap in &self.taps {
            let values = planes.index_select(tap, 1)?;
            let pixels = tap.unsqueeze(0)?.broadcast_as(shape)?;
            largest = Some(match largest {
                None => (values, pixels.contiguous()?),
                Some((before, chosen)) => {
                    let is_first_nan = values.ne(&values)?.gt(&before.ne(&before)?)?;
                    let is_larger = values.gt(&before)?.add(&is_first_nan)?;
                    (
                        is_larger.where_cond(&values, &before)?,
                        is_larger.where_cond(&pixels, &chosen)?,
                    )
                }
            });
        }
        match largest {
            Some(largest) => Ok(largest),
            None => Ok((
                Tensor::zeros(shape, planes.dtype(), planes.device())?,
                Tensor::zeros(shape, DType::U32, planes.device())?,
            )),
        }
    }

    /// The gradient of the planes, from that of the windows and the pixels that were their largest.
    fn largest_back(&self, gradient: &Tensor, largest: &Tensor) -> Result<Tensor> {
        let images = gradient.dim(0)?;
        let pixels = self.own.elem_count();
        let gradient = with_last(gradient, self.has_uncovered, 0.0)?;
        let largest = with_last(largest, self.has_uncovered, pixels as f64)?;
        let own = self.own.broadcast_as((images, pixels))?.contiguous()?;
        let zeros = Tensor::zeros((images, pixels), gradient.dtype(), gradient.device())?;
        let mut sum: Option<Tensor> = None;
        for window in &self.covers {
            let is_own = largest.index_select(window, 1)?.eq(&own)?;
            let given = is_own.where_cond(&gradient.index_select(window, 1)?, &zeros)?;
            sum = Some(added(sum, &given)?);
        }
        sum.unwrap_or(zeros).to_dtype(gradient.dtype())
    }
}

/// The n-th elements of all lists, for each n up to the longest list, with `outside` for those of shorter lists; and
/// whether there are such.
fn columns(lists: &[Vec<u32>], outside: u32, device: &Device) -> Result<(Vec<Tensor>, bool)> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let has_outside = lists.iter().any(|list| list.len() < longest);
    let column = |place: usize| {
        let elements = lists
            .iter()
            .map(|list| list.get(place).copied().unwrap_or(outside));
        Tensor::new(elements.collect::<Vec<u32>>(), device)
    };
    let columns: Result<Vec<Tensor>> = (0..longest).map(column).collect();
    Ok((columns?, has_outside))
}

/// A tensor of (images, elements), with one more element of each where one is needed.
fn with_last(x: &Tensor, is_needed: bool, last: f64) -> Result<Tensor> {
    if !is_needed {
        return x.contiguous();
    }
    let images = x.dim(0)?;
    let last = Tensor::full(last as f32, (images, 1), x.device())?.to_dtype(x.dtype())?;
    Tensor::cat(&[x, &last], 1)?.contiguous()
}

/// The sum over several gathers from (images, elements), in `f32` at least.
fn sum_of(x: &Tensor, indices: &[Tensor]) -> Result<Tensor> {
    let mut sum = None;
    for indices in indices {
        sum = Some(added(sum, &x.index_select(indices, 1)?)?);
    }
    match sum {
        Some(sum) => Ok(sum),
        None => Tensor::zeros((x.dim(0)?, 0), x.dtype(), x.device()),
    }
}

fn added(sum: Option<Tensor>, x: &Tensor) -> Result<Tensor> {
    let x = widened(x)?;
    match sum {
        Some(sum) => sum + &*x,
        None => Ok(x.into_owned()),
    }
}
