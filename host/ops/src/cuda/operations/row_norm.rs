//! Layer and RMS norm by `host/ops/cuda/row_norms.cu`.

use candle_core::{CudaDevice, D, DType, Result, Tensor, bail};

use crate::autograd::custom_gradient::custom_gradient;
use crate::cuda::compilation::sources::Family;
use crate::cuda::launch::{
    Argument, Grid, count_of_blocks, device_of, launch, segments, suffix, uninitialised,
};

/// Layer norm over the last dimension, or `None` where the kernels don't take the tensors. The output is `f32`.
pub(crate) fn layer_norm(
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    epsilon: f64,
) -> Result<Option<Tensor>> {
    if !is_taken(x, &[weight, bias]) {
        return Ok(None);
    }
    let (x, weight, bias) = (x.contiguous()?, weight.contiguous()?, bias.contiguous()?);
    let (y, norm) = Norm::forward(&x, &weight, Some(&bias), epsilon)?;
    let y = custom_gradient(
        [&x, &weight, &bias],
        y,
        move |[x, weight, _], gradient, wanted| {
            let [of_x, of_weight, of_bias] = wanted;
            let (of_weights, biases) = norm.of_weights(x, gradient, of_weight || of_bias)?;
            let of_x = of_x
                .then(|| norm.of_input(x, weight, gradient))
                .transpose()?;
            Ok([of_x, of_weights, biases])
        },
    )?;
    Ok(Some(y))
}

/// RMS norm over the last dimension, or `None` where the kernels don't take the tensors. The output is `f32`.
pub(crate) fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Option<Tensor>> {
    if !is_taken(x, &[weight]) {
        return Ok(None);
    }
    let (x, weight) = (x.contiguous()?, weight.contiguous()?);
    let (y, norm) = Norm::forward(&x, &weight, None, epsilon)?;
    let y = custom_gradient(
        [&x, &weight],
        y,
        move |[x, weight], gradient, [of_x, of_weight]| {
            let (of_weights, _) = norm.of_weights(x, gradient, of_weight)?;
            let of_x = of_x
                .then(|| norm.of_input(x, weight, gradient))
                .transpose()?;
            Ok([of_x, of_weights])
        },
    )?;
    Ok(Some(y))
}

fn is_taken(x: &Tensor, weights: &[&Tensor]) -> bool {
    crate::cuda::takes(x) && weights.iter().all(|weight| weight.dtype() == DType::F32)
}

/// What the backward pass needs.
struct Norm {
    device: CudaDevice,
    /// Mean and scale of each row.
    kept: Tensor,
    rows: usize,
    width: usize,
    centred: bool,
}

impl Norm {
    fn forward(
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        epsilon: f64,
    ) -> Result<(Tensor, Norm)> {
        let width = x.dim(D::Minus1)?;
        let fits = |weight: &Tensor| weight.dims() == [width];
        if !fits(weight) || !bias.is_none_or(fits) {
            bail!(
                "a norm of weight {:?} was given {:?}",
                weight.dims(),
                x.dims()
            )
        }
        let rows = x.elem_count() / width;
        let device = device_of(x)?;
        let y = uninitialised(&device, x.shape(), DType::F32)?;
        let kept = uninitialised(&device, (rows, 2), DType::F32)?;
        launch(
            &device,
            (Family::RowNorms, &format!("row_norm_{}", suffix(x)?)),
            Grid::rows(rows, width)?,
            &[
                Argument::Tensor(x),
                Argument::Tensor(weight),
                bias.map_or(Argument::None, Argument::Tensor),
                Argument::Tensor(&y),
                Argument::Tensor(&kept),
                Argument::U64(rows as u64),
                Argument::U32(width as u32),
                Argument::F32(epsilon as f32),
                Argument::U32(u32::from(bias.is_some())),
            ],
        )?;
        let norm = Norm {
            device,
            kept,
            rows,
            width,
            centred: bias.is_some(),
        };
        Ok((y, norm))
    }

    fn of_input(&self, x: &Tensor, weight: &Tensor, gradient: &Tensor) -> Result<Tensor> {
        let gradient = gradient.contiguous()?;
        let of_x = uninitialised(&self.device, x.shape(), x.dtype())?;
        launch(
            &self.device,
            (
                Family::RowNorms,
                &format!("row_norm_gradient_{}", suffix(x)?),
            ),
            Grid::rows(self.rows, self.width)?,
            &[
                Argument::Tensor(x),
                Argument::Tensor(&self.kept),
                Argument::Tensor(weight),
                Argument::Tensor(&gradient),
                Argument::Tensor(&of_x),
                Argument::U64(self.rows as u64),
                Argument::U32(self.width as u32),
                Argument::U32(u32::from(self.centred)),
            ],
        )?;
        Ok(of_x)
    }

    /// Gradients of weight and bias, if wanted.
    fn of_weights(
        &self,
        x: &Tensor,
        gradient: &Tensor,
        wanted: bool,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        if !wanted {
            return Ok((None, None));
        }
        let gradient = gradient.contiguous()?;
        let (segments, rows_each) = segments(self.rows);
        let device = &self.device;
        let parts = uninitialised(device, (segments, 2, self.width), DType::F32)?;
        launch(
            device,
            (Family::RowNorms, &format!("weight_sums_{}", suffix(x)?)),
            Grid {
                blocks: (count_of_blocks(self.width, 32)?, segments as u32, 1),
                threads: (32, 8, 1),
                shared: 0,
            },
            &[
                Argument::Tensor(x),
                Argument::Tensor(&self.kept),
                Argument::Tensor(&gradient),
                Argument::Tensor(&parts),
                Argument::U64(self.rows as u64),
                Argument::U32(self.width as u32),
                Argument::U32(rows_each as u32),
            ],
        )?;
        let sums = uninitialised(device, (2, self.width), DType::F32)?;
        launch(
            device,
            (Family::RowNorms, "join_segments"),
            Grid::threads(2 * self.width)?,
            &[
                Argument::Tensor(&parts),
                Argument::Tensor(&sums),
                Argument::U32(segments as u32),
                Argument::U64(2 * self.width as u64),
            ],
        )?;
        Ok((Some(sums.get(0)?), Some(sums.get(1)?)))
    }
}
