//! Binary cross entropy with logits.

use candle_core::{Result, Tensor, bail};

use super::shapes::{numbers, weighted_mean};

/// Binary cross entropy of logits x (samples, numbers) with targets y from 0 to 1, as
/// `torch.nn.BCEWithLogitsLoss` computes it: the mean over all elements of
/// −(w · y · log σ(x) + (1 − y) · log(1 − σ(x))), with a positive-class weight w per column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BinaryCrossEntropy {
    pos_weight: Option<Vec<f64>>,
}

impl BinaryCrossEntropy {
    /// Creates the loss with a positive-class weight per column, 1 by default.
    pub fn new(pos_weight: Option<Vec<f64>>) -> BinaryCrossEntropy {
        BinaryCrossEntropy { pos_weight }
    }

    /// Returns the loss, a scalar; NaN for targets that are not from 0 to 1 and not on the CPU.
    pub fn forward(&self, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        weighted_mean(&self.errors(outputs, targets)?, None)
    }

    /// Returns the terms of all elements.
    pub(super) fn errors(&self, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        let yes = if targets.device().is_cpu() {
            check(targets)?;
            numbers(outputs, targets)?
        } else {
            marked(&numbers(outputs, targets)?)?
        };
        let no = yes.affine(-1.0, 1.0)?;
        let mut missed = yes.mul(&softplus(&outputs.neg()?)?)?;
        if let Some(weights) = &self.pos_weight {
            let columns = outputs.dims().last().copied().unwrap_or(0);
            if weights.len() != columns {
                bail!(
                    "`pos_weight` has {} elements for {columns} outputs",
                    weights.len()
                );
            }
            let weights = Tensor::new(weights.as_slice(), outputs.device())?;
            missed = missed.broadcast_mul(&weights.to_dtype(outputs.dtype())?)?;
        }
        // Two terms, each free of cancellation: small gradients stay exact.
        missed.add(&no.mul(&softplus(outputs)?)?)
    }
}

/// log(1 + eˣ) = −log σ(−x), which neither overflows nor has a kink at 0: max(x, 0), detached, is
/// factored out.
fn softplus(x: &Tensor) -> Result<Tensor> {
    let larger = x.detach().relu()?;
    let sum = larger.neg()?.exp()?.add(&x.sub(&larger)?.exp()?)?;
    larger.add(&sum.log()?)
}

/// Returns the targets with NaN in place of those that are not from 0 to 1: an error would have to wait for the device.
fn marked(targets: &Tensor) -> Result<Tensor> {
    let is_inside = targets.ge(0.0)?.mul(&targets.le(1.0)?)?;
    let nan = targets.affine(0.0, f64::NAN)?;
    is_inside.where_cond(targets, &nan)
}

fn check(targets: &Tensor) -> Result<()> {
    let values: Vec<f64> = targets
        .to_dtype(candle_core::DType::F64)?
        .flatten_all()?
        .to_vec1()?;
    if let Some(place) = values.iter().position(|y| !(0.0..=1.0).contains(y)) {
        let columns = targets.dims().last().copied().unwrap_or(1).max(1);
        bail!(
            "binary cross entropy wants targets from 0 (no) to 1 (yes), found {} in the batch's \
             sample {}, column {}",
            values[place],
            place / columns,
            place % columns
        );
    }
    Ok(())
}
