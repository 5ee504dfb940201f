//! Losses, and the check for what is not finite.

use candle_core::{D, Result, Tensor};

use super::of;
use crate::cross_entropy::CrossEntropyTerms;

/// Cross entropy of logits (rows, classes), as [`cross_entropy`](crate::cross_entropy()), which has checked the targets.
pub(crate) fn cross_entropy(
    logits: &Tensor,
    targets: &[Option<u32>],
    terms: &CrossEntropyTerms,
    divisor: f64,
) -> Result<Tensor> {
    of([logits], |[x]| {
        let (device, dtype) = (x.device(), x.dtype());
        let classes = x.dim(1)?;
        // What does not count may hold anything, NaN too.
        let counting = targets.iter().zip(0_u32..);
        let (targets, rows): (Vec<u32>, Vec<u32>) = counting
            .filter_map(|(target, row)| target.map(|target| (target, row)))
            .unzip();
        let count = rows.len();
        let x = x.index_select(&Tensor::new(rows, device)?, 0)?;
        let log_sums = log_sum_exp(&x)?;
        let weight = |target: &u32| match &terms.weights {
            Some(weights) => weights.get(*target as usize).copied().unwrap_or(0.0),
            None => 1.0,
        };
        let weights: Vec<f64> = targets.iter().map(weight).collect();
        let weights = Tensor::from_vec(weights, (count, 1), device)?.to_dtype(dtype)?;
        let targets = Tensor::from_vec(targets, (count, 1), device)?;
        // ℓ(y) = log Σ exp − x[y].
        let of_targets = ((&log_sums - x.gather(&targets, 1)?)? * weights)?.sum_all()?;
        let mut loss = (of_targets * ((1.0 - terms.smoothing) / divisor))?;
        if terms.smoothing > 0.0 {
            let weights = terms.weights.clone().unwrap_or_else(|| vec![1.0; classes]);
            let all: f64 = weights.iter().sum();
            let weights = Tensor::from_vec(weights, (1, classes), device)?.to_dtype(dtype)?;
            // Σ w · ℓ = Σ w · log Σ exp − Σ w · x.
            let of_all = ((log_sums * all)? - x.broadcast_mul(&weights)?.sum_keepdim(1)?)?;
            let share = terms.smoothing / classes as f64 / divisor;
            loss = (loss + (of_all.sum_all()? * share)?)?;
        }
        Ok(loss)
    })
}

/// log Σ exp(x) of each row.
fn log_sum_exp(x: &Tensor) -> Result<Tensor> {
    let largest = x.detach().max_keepdim(D::Minus1)?;
    let sums = x.broadcast_sub(&largest)?.exp()?.sum_keepdim(D::Minus1)?;
    sums.log()? + largest
}

/// Mean of (x − y)² over all elements.
pub(crate) fn mean_squared_error(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    of([x, y], |[x, y]| {
        let squares = (x - y)?.sqr()?.sum_all()?;
        squares / (x.elem_count().max(1) as f64)
    })
}

/// Whether no element is NaN or infinite.
pub(crate) fn is_finite(x: &Tensor) -> Result<bool> {
    // x · 0 is 0 for finite x, and NaN otherwise.
    let sum = (x.detach() * 0.0)?.sum_all()?;
    let sum = sum.to_dtype(candle_core::DType::F64)?.to_scalar::<f64>()?;
    Ok(sum.is_finite())
}
