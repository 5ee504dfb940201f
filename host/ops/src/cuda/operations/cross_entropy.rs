//! Softmax with cross entropy by `host/ops/cuda/softmax.cu`.

use candle_core::{CudaDevice, DType, Result, Tensor, bail};

use crate::autograd::custom_gradient::custom_gradient;
use crate::cuda::compilation::sources::Family;
use crate::cuda::launch::{Argument, Grid, device_of, launch, suffix, uninitialised};
use crate::options::CrossEntropyTerms;

/// The loss of logits (rows, classes) with targets (rows) of `u32` on the same device, or `None` where the kernels don't take the logits.
///
/// A row whose target is `ignored` doesn't count; one whose target is none of the classes makes the loss NaN. It is divided by
/// `divisor`, or by the sum of the weights of the targets that count. The output is `f32`.
pub(crate) fn cross_entropy(
    logits: &Tensor,
    targets: &Tensor,
    ignored: Option<u32>,
    terms: &CrossEntropyTerms,
    divisor: Option<f64>,
) -> Result<Option<Tensor>> {
    let is_taken =
        crate::cuda::takes(logits) && targets.dtype() == DType::U32 && divisor != Some(0.0);
    if !is_taken {
        return Ok(None);
    }
    let logits = logits.contiguous()?;
    let (rows, classes) = logits.dims2()?;
    if targets.elem_count() != rows {
        bail!(
            "{rows} rows of logits, but {} targets",
            targets.elem_count()
        )
    }
    let weights: Vec<f32> = terms.weights.iter().flatten().map(|&w| w as f32).collect();
    let weights = match &terms.weights {
        Some(_) => Some(Tensor::from_vec(weights, classes, logits.device())?),
        None => None,
    };
    let loss = Loss {
        device: device_of(&logits)?,
        targets: targets.detach().contiguous()?,
        ignored: ignored.map_or(1 << 32, u64::from),
        own: (1.0 - terms.smoothing) as f32,
        even: (terms.smoothing / classes as f64) as f32,
        all: match &terms.weights {
            Some(weights) => weights.iter().sum::<f64>() as f32,
            None => classes as f32,
        },
        weights,
        rows,
        classes,
    };
    let (value, kept) = loss.forward(&logits, divisor.unwrap_or(0.0))?;
    let value = custom_gradient([&logits], value, move |[x], gradient, _| {
        Ok([Some(loss.backward(x, gradient, &kept)?)])
    })?;
    Ok(Some(value))
}

struct Loss {
    device: CudaDevice,
    targets: Tensor,
    /// What no target is where none is ignored.
    ignored: u64,
    /// A weight for each class.
    weights: Option<Tensor>,
    /// 1 − ε, and ε / classes.
    own: f32,
    even: f32,
    /// The sum of all classes' weights.
    all: f32,
    rows: usize,
    classes: usize,
}

/// What the backward pass needs of the forward pass.
struct Kept {
    log_sums: Tensor,
    /// 1 / divisor.
    inverse: Tensor,
}

impl Loss {
    /// The first arguments of both kernels.
    fn terms<'a>(&'a self, x: &'a Tensor) -> Vec<Argument<'a>> {
        vec![
            Argument::Tensor(x),
            Argument::Tensor(&self.targets),
            self.weights
                .as_ref()
                .map_or(Argument::None, Argument::Tensor),
            Argument::U64(self.ignored),
            Argument::F32(self.own),
            Argument::F32(self.even),
        ]
    }

    fn sizes<'a>(&self) -> [Argument<'a>; 2] {
        [
            Argument::U64(self.rows as u64),
            Argument::U32(self.classes as u32),
        ]
    }

    fn forward(&self, x: &Tensor, divisor: f64) -> Result<(Tensor, Kept)> {
        let device = &self.device;
        let losses = uninitialised(device, self.rows, DType::F64)?;
        let of_targets = uninitialised(device, self.rows, DType::F64)?;
        let log_sums = uninitialised(device, self.rows, DType::F32)?;
        let mut arguments = self.terms(x);
        arguments.extend([
            Argument::Tensor(&losses),
            Argument::Tensor(&log_sums),
            Argument::Tensor(&of_targets),
        ]);
        arguments.extend(self.sizes());
        launch(
            device,
            (Family::Softmax, &format!("row_losses_{}", suffix(x)?)),
            Grid::rows(self.rows, self.classes)?,
            &arguments,
        )?;
        let value = uninitialised(device, (), DType::F32)?;
        let inverse = uninitialised(device, (), DType::F32)?;
        launch(
            device,
            (Family::Softmax, "mean_loss"),
            Grid::blocks(1),
            &[
                Argument::Tensor(&losses),
                Argument::Tensor(&of_targets),
                Argument::U64(self.rows as u64),
                Argument::F64(divisor),
                Argument::Tensor(&value),
                Argument::Tensor(&inverse),
            ],
        )?;
        Ok((value, Kept { log_sums, inverse }))
    }

    fn backward(&self, x: &Tensor, gradient: &Tensor, kept: &Kept) -> Result<Tensor> {
        let gradient = gradient.to_dtype(DType::F32)?.contiguous()?;
        let of_x = uninitialised(&self.device, x.shape(), x.dtype())?;
        let mut arguments = self.terms(x);
        arguments.extend([
            Argument::Tensor(&kept.log_sums),
            Argument::Tensor(&gradient),
            Argument::Tensor(&kept.inverse),
            Argument::F32(self.all),
            Argument::Tensor(&of_x),
        ]);
        arguments.extend(self.sizes());
        launch(
            &self.device,
            (Family::Softmax, &format!("loss_gradient_{}", suffix(x)?)),
            Grid::rows(self.rows, self.classes)?,
            &arguments,
        )?;
        Ok(of_x)
    }
}
