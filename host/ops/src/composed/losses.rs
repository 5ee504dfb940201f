//! Losses, and the check for what is not finite.

use candle_core::{D, DType, Result, Tensor};

use super::cast::widened;
use super::of;
use crate::autograd::custom_gradient::custom_gradient;
use crate::options::CrossEntropyTerms;

/// Cross entropy of logits (rows, classes), as [`cross_entropy`](crate::cross_entropy()), which has checked the targets.
pub(crate) fn cross_entropy(
    logits: &Tensor,
    targets: &[Option<u32>],
    terms: &CrossEntropyTerms,
    divisor: f64,
) -> Result<Tensor> {
    let targets: Vec<u32> = targets.iter().map(|y| y.unwrap_or(u32::MAX)).collect();
    let targets = Tensor::new(targets, logits.device())?;
    if terms.rows.is_none() {
        own_kernel!(crate::cuda::cross_entropy::cross_entropy(
            logits,
            &targets,
            Some(u32::MAX),
            terms,
            Some(divisor)
        ));
    }
    let divisor = Tensor::new(divisor, logits.device())?;
    of_rows(
        logits,
        &Targets::of(logits, &targets, Some(u32::MAX))?,
        terms,
        Some(divisor),
    )
}

/// Cross entropy of logits (rows, classes) with targets (rows) on the same device, none of which is read here: the mean
/// over those that are not `ignored`, by their classes' weights; 0 if none counts, and NaN for a target that is none of
/// the classes.
pub(crate) fn cross_entropy_on_device(
    logits: &Tensor,
    targets: &Tensor,
    ignored: Option<u32>,
    terms: &CrossEntropyTerms,
) -> Result<Tensor> {
    if terms.rows.is_none() {
        own_kernel!(crate::cuda::cross_entropy::cross_entropy(
            logits, targets, ignored, terms, None
        ));
    }
    of_rows(logits, &Targets::of(logits, targets, ignored)?, terms, None)
}

/// Targets of (rows, classes).
struct Targets {
    /// A class of each row, the first where the target is none: (rows, 1).
    classes: Tensor,
    /// 1 for rows that count, else 0, as `u8`: (rows, 1).
    counted: Tensor,
    /// 1 for rows that count and whose target is none of the classes.
    unknown: Tensor,
}

impl Targets {
    fn of(logits: &Tensor, targets: &Tensor, ignored: Option<u32>) -> Result<Targets> {
        let (rows, classes) = logits.dims2()?;
        let targets = targets.detach().reshape((rows, 1))?;
        let is_known = targets.lt(classes as u32)?;
        let counted = match ignored {
            Some(ignored) => targets.ne(ignored)?,
            None => targets.ones_like()?.to_dtype(DType::U8)?,
        };
        Ok(Targets {
            classes: is_known.where_cond(&targets, &targets.zeros_like()?)?,
            unknown: counted.gt(&is_known)?,
            counted,
        })
    }
}

/// The loss of all rows; divided by the sum of the weights of the targets that count unless a divisor is given.
///
/// With p the softmax of a row, w its target's weight and ε the smoothing, the gradient of its logit i is
/// (1 − ε) · w · (pᵢ − [i is the target]) + ε / classes · (pᵢ · Σ weights − weight of i), divided like the loss.
fn of_rows(
    logits: &Tensor,
    targets: &Targets,
    terms: &CrossEntropyTerms,
    divisor: Option<Tensor>,
) -> Result<Tensor> {
    let logits = &*widened(logits)?;
    let (rows, classes) = logits.dims2()?;
    let (dtype, device) = (logits.dtype(), logits.device());
    let weights = match &terms.weights {
        Some(weights) => Tensor::new(weights.as_slice(), device)?.to_dtype(dtype)?,
        None => Tensor::ones(classes, dtype, device)?,
    };
    let all: f64 = match &terms.weights {
        Some(weights) => weights.iter().sum(),
        None => classes as f64,
    };
    let spread = terms.smoothing / classes as f64;
    let of_rows = match &terms.rows {
        Some(rows) => Some(
            Tensor::new(rows.as_slice(), device)?
                .to_dtype(dtype)?
                .reshape((rows.len(), 1))?,
        ),
        None => None,
    };
    // How much a row counts.
    let weighed = |counts: &Tensor| -> Result<Tensor> {
        let counted = counts.to_dtype(dtype)?;
        match &of_rows {
            Some(of_rows) => counted * of_rows,
            None => Ok(counted),
        }
    };
    let mut counts = targets.counted.clone();
    let mut counted = weighed(&counts)?;
    let of_targets = if terms.weights.is_some() {
        let of_targets = weights.index_select(&targets.classes.flatten_all()?, 0)?;
        (of_targets.reshape((rows, 1))? * &counted)?
    } else {
        counted.clone()
    };
    if divisor.is_none() && (terms.weights.is_some() || terms.rows.is_some()) {
        // Where all that count weigh nothing, nothing counts.
        let is_any = of_targets.sum_all()?.gt(0.0)?;
        counts = counts.broadcast_mul(&is_any)?;
        counted = weighed(&counts)?;
    }
    let divisor = if let Some(divisor) = divisor {
        divisor.to_dtype(dtype)?
    } else {
        // Where nothing counts, the sum is 0 too.
        let total = of_targets.sum_all()?;
        (&total + total.eq(0.0)?.to_dtype(dtype)?)?
    };
    // What does not count may hold anything, NaN too.
    let is_counted = counts.broadcast_as((rows, classes))?.contiguous()?;
    let cleaned = move |x: &Tensor| is_counted.where_cond(x, &x.zeros_like()?);
    let x = cleaned(&logits.detach())?;
    let log_sums = log_sum_exp(&x)?;
    let weights = weights.reshape((1, classes))?;
    let chosen = x.gather(&targets.classes, 1)?;
    let mut losses = ((&log_sums - chosen)? * &of_targets)?;
    if spread > 0.0 {
        let of_all = x.broadcast_mul(&weights)?.sum_keepdim(1)?;
        let of_all = (((&log_sums * all)? - of_all)? * &counted)?;
        losses = ((losses * (1.0 - terms.smoothing))? + (of_all * spread)?)?;
    }
    let nan = Tensor::full(f32::NAN, (rows, 1), device)?.to_dtype(dtype)?;
    let losses = targets.unknown.where_cond(&nan, &losses)?;
    let loss = (losses.sum_all()? / &divisor)?;
    let own = targets.classes.clone();
    let kept = 1.0 - terms.smoothing;
    custom_gradient([logits], loss, move |[x], gradient, _| {
        let scale = (gradient / &divisor)?.reshape((1, 1))?;
        let of_target = (&of_targets * kept)?;
        let powers = cleaned(x)?.broadcast_sub(&log_sums)?.exp()?;
        let factor = (&of_target + (&counted * (all * spread))?)?;
        let mut of_x = powers.broadcast_mul(&factor)?;
        let classes = Tensor::arange(0, classes as u32, x.device())?.unsqueeze(0)?;
        let is_target = own.broadcast_eq(&classes)?.to_dtype(x.dtype())?;
        of_x = (of_x - is_target.broadcast_mul(&of_target)?)?;
        if spread > 0.0 {
            of_x = (of_x - (&counted * spread)?.broadcast_mul(&weights)?)?;
        }
        Ok([Some(of_x.broadcast_mul(&scale)?)])
    })
}

/// log Σ exp(x) of each row.
fn log_sum_exp(x: &Tensor) -> Result<Tensor> {
    let largest = x.max_keepdim(D::Minus1)?;
    let sums = x.broadcast_sub(&largest)?.exp()?.sum_keepdim(D::Minus1)?;
    sums.log()? + largest
}

/// Mean of (x − y)² over all elements.
pub(crate) fn mean_squared_error(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    of([x, y], |[x, y]| {
        let squares = (&*widened(x)? - &*widened(y)?)?.sqr()?.sum_all()?;
        squares / (x.elem_count().max(1) as f64)
    })
}

/// Whether no element is NaN or infinite.
pub(crate) fn is_finite(x: &Tensor) -> Result<bool> {
    // x · 0 is 0 for finite x, and NaN otherwise.
    let sum = (x.detach() * 0.0)?.sum_all()?;
    let sum = sum.to_dtype(DType::F64)?.to_scalar::<f64>()?;
    Ok(sum.is_finite())
}
