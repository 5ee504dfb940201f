//! Matching of outputs with targets, shared by losses and metrics.

use candle_core::{DType, Result, Tensor, bail};

use crate::ops;

/// Logits and target classes, of samples or of their positions.
pub(crate) struct LogitRows {
    /// Shape (rows, classes).
    pub(crate) logits: Tensor,
    /// Target class of each row.
    pub(crate) targets: Vec<u32>,
}

impl LogitRows {
    /// Creates rows from outputs (samples, classes) and targets (samples), or from (samples, positions,
    /// classes) and (samples, positions).
    pub(crate) fn new(outputs: &Tensor, targets: &Tensor) -> Result<LogitRows> {
        let (logits, targets) = logit_rows(outputs, targets)?;
        Ok(LogitRows {
            logits,
            targets: classes_of(&targets)?,
        })
    }

    /// Removes the rows whose target is `ignored`.
    pub(crate) fn without(self, ignored: Option<u32>) -> Result<LogitRows> {
        let Some(ignored) = ignored.filter(|ignored| self.targets.contains(ignored)) else {
            return Ok(self);
        };
        let mut targets = Vec::new();
        let mut kept = Vec::new();
        for (row, target) in (0_u32..).zip(self.targets) {
            if target != ignored {
                targets.push(target);
                kept.push(row);
            }
        }
        let logits = if kept.is_empty() {
            self.logits.narrow(0, 0, 0)?
        } else {
            let kept = Tensor::new(kept.as_slice(), self.logits.device())?;
            self.logits.index_select(&kept, 0)?
        };
        Ok(LogitRows { logits, targets })
    }

    /// Returns the number of classes, and checks that each target is one of them.
    pub(crate) fn classes(&self) -> Result<usize> {
        let classes = self.logits.dim(1)?;
        if let Some(target) = self.targets.iter().find(|&&t| t as usize >= classes) {
            bail!(
                "the target {target} is not one of the outputs' {classes} classes, 0 to {}",
                classes - 1
            );
        }
        Ok(classes)
    }
}

/// Returns outputs and targets of [`LogitRows`] as (rows, classes) and (rows), on their device.
pub(crate) fn logit_rows(outputs: &Tensor, targets: &Tensor) -> Result<(Tensor, Tensor)> {
    check_type(targets)?;
    let fits = |classes: &usize, rows: &[usize]| {
        rows == targets.dims() && *classes > 0 && (1..=2).contains(&rows.len())
    };
    match outputs.dims().split_last() {
        Some((classes, rows)) if fits(classes, rows) => Ok((
            ops::reshape(outputs, (targets.elem_count(), *classes))?,
            targets.flatten_all()?,
        )),
        _ => bail!(
            "outputs {:?} and targets {:?} don't belong together: for classes they must be \
             (samples, classes) and (samples), or (samples, positions, classes) and (samples, \
             positions)",
            outputs.dims(),
            targets.dims()
        ),
    }
}

/// Returns the target classes in row-major order.
pub(crate) fn classes_of(targets: &Tensor) -> Result<Vec<u32>> {
    check_type(targets)?;
    ops::device::copy_to_host(targets)?.flatten_all()?.to_vec1()
}

fn check_type(targets: &Tensor) -> Result<()> {
    if targets.dtype() != DType::U32 {
        bail!(
            "classes must be u32, found targets of {}",
            targets.dtype().as_str()
        );
    }
    Ok(())
}

/// Returns numeric targets (samples, numbers) in the type of the outputs. Both must have the same
/// shape: broadcasting would hide an error.
pub(crate) fn numbers(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    if outputs.dims() != targets.dims() {
        bail!(
            "outputs {:?} and targets {:?} don't belong together: numbers must be of one shape, \
             (samples, numbers)",
            outputs.dims(),
            targets.dims()
        );
    }
    targets.to_dtype(outputs.dtype())
}

/// Checks that there is a weight for each sample, if there are any.
pub(super) fn check_weights(targets: &Tensor, weights: Option<&[f32]>) -> Result<()> {
    let samples = targets.dims().first().copied().unwrap_or(0);
    match weights {
        Some(weights) if weights.len() != samples => {
            bail!("{} weights for {samples} samples", weights.len())
        }
        _ => Ok(()),
    }
}

/// The sum of the weights of `elements` elements, of which each sample has as many.
pub(super) fn total(weights: &[f32], elements: usize) -> f64 {
    let of_each = elements / weights.len().max(1);
    let sum: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
    sum * of_each as f64
}

/// Returns the mean over all elements of (samples, …), each weighted as its sample; 0 if there are none, or none counts.
pub(super) fn weighted_mean(errors: &Tensor, weights: Option<&[f32]>) -> Result<Tensor> {
    let Some(weights) = weights else {
        let count = errors.elem_count().max(1);
        return errors.sum_all()?.affine(1.0 / count as f64, 0.0);
    };
    let total = total(weights, errors.elem_count());
    let mut shape = vec![1; errors.rank()];
    if let Some(samples) = shape.first_mut() {
        *samples = weights.len();
    }
    let weights = Tensor::new(weights, errors.device())?.reshape(shape)?;
    // A sample that doesn't count may hold anything, NaN too.
    let counts = weights.gt(0.0)?.broadcast_as(errors.dims())?.contiguous()?;
    let counted = counts.where_cond(errors, &errors.zeros_like()?)?;
    let factor = if total > 0.0 { 1.0 / total } else { 0.0 };
    let weighted = counted.broadcast_mul(&weights.to_dtype(errors.dtype())?)?;
    weighted.sum_all()?.affine(factor, 0.0)
}
