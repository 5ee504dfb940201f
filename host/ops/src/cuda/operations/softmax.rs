//! Softmax by `host/ops/cuda/softmax.cu`.

use candle_core::{D, DType, Result, Tensor};

use crate::autograd::custom_gradient::{Backward, custom_gradient_of_output};
use crate::cuda::compilation::sources::Family;
use crate::cuda::launch::{Argument, Grid, device_of, launch, suffix, uninitialised};

/// Softmax over the last dimension, or `None` where the kernels don't take the tensor. The output is `f32`.
pub(crate) fn softmax(x: &Tensor, causal: bool) -> Result<Option<Tensor>> {
    if !crate::cuda::takes(x) {
        return Ok(None);
    }
    let x = x.contiguous()?;
    let device = device_of(&x)?;
    let width = x.dim(D::Minus1)?;
    let rows = x.elem_count() / width;
    let queries = match x.dims() {
        [.., queries, _] if causal => *queries,
        _ if causal => 1,
        _ => 0,
    };
    let y = uninitialised(&device, x.shape(), DType::F32)?;
    launch(
        &device,
        (Family::Softmax, &format!("softmax_{}", suffix(&x)?)),
        Grid::rows(rows, width)?,
        &[
            Argument::Tensor(&x),
            Argument::Tensor(&y),
            Argument::U64(rows as u64),
            Argument::U32(width as u32),
            Argument::U32(queries as u32),
        ],
    )?;
    let backward: Backward<1> = Box::new(move |[x], y, gradient, _| {
        let gradient = gradient.contiguous()?;
        let of_x = uninitialised(&device, x.shape(), x.dtype())?;
        launch(
            &device,
            (Family::Softmax, &format!("softmax_gradient_{}", suffix(x)?)),
            Grid::rows(rows, width)?,
            &[
                Argument::Tensor(y),
                Argument::Tensor(&gradient),
                Argument::Tensor(&of_x),
                Argument::U64(rows as u64),
                Argument::U32(width as u32),
            ],
        )?;
        Ok([Some(of_x)])
    });
    let y = custom_gradient_of_output([&x], y, backward)?;
    Ok(Some(y))
}
