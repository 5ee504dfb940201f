//! Softmax and cross entropy as one operation.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor, WithDType, bail};

use crate::autograd::tape::apply1;
use crate::kernels::fill::{Rows, Schedule, UninitRows, fill_parts};
use crate::kernels::math::{LANES, largest, number, sum};
use crate::kernels::region;
use crate::kernels::{write_all, write_rows, zeros};
use crate::options::CrossEntropyTerms;
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};
use crate::{composed, vectorised};

/// Cross entropy of logits x (rows, classes) and a target y for each row: a scalar.
///
/// With weights w and smoothing ε it is Σ over the rows of (1 − ε) · w\[y\] · ℓ(y) + ε / classes · Σᵢ w\[i\] · ℓ(i),
/// with ℓ(i) = log Σⱼ exp(xⱼ) − xᵢ, each row times its own weight, divided by `divisor`. A row whose target is `None` does not count.
pub fn cross_entropy(
    logits: &Tensor,
    targets: &[Option<u32>],
    terms: CrossEntropyTerms,
    divisor: f64,
) -> Result<Tensor> {
    let &[rows, classes] = logits.dims() else {
        bail!(
            "a cross entropy wants logits (rows, classes), found {:?}",
            logits.dims()
        )
    };
    if rows != targets.len() {
        bail!("{rows} rows of logits, but {} targets", targets.len())
    }
    if let Some(target) = targets.iter().flatten().find(|&&y| y as usize >= classes) {
        bail!(
            "the target {target} is not one of the outputs' {classes} classes, 0 to {}",
            classes.saturating_sub(1)
        )
    }
    check_weights(&terms, classes)?;
    check_rows(&terms, rows)?;
    if composed::is_chosen(logits) {
        return composed::cross_entropy(logits, targets, &terms, divisor);
    }
    let op = CrossEntropyOp {
        log_sums: OnceLock::new(),
        targets: targets.to_vec(),
        terms,
        divisor,
        classes,
    };
    apply1(&ready(logits)?, op)
}

/// The mean [`cross_entropy`] of logits (rows, classes) with targets (rows) on the same device: nothing is read back, so
/// nothing waits for the device.
///
/// The divisor is the sum of the weights of all targets but those that are `ignored`; the loss is 0 if there are none. A
/// target that is none of the classes makes it NaN, as it can't be reported without waiting.
pub fn cross_entropy_on_device(
    logits: &Tensor,
    targets: &Tensor,
    ignored: Option<u32>,
    terms: &CrossEntropyTerms,
) -> Result<Tensor> {
    let &[rows, classes] = logits.dims() else {
        bail!(
            "a cross entropy wants logits (rows, classes), found {:?}",
            logits.dims()
        )
    };
    if targets.dims() != [rows] || targets.dtype() != DType::U32 {
        bail!("{rows} rows of logits, but targets {targets:?}")
    }
    check_weights(terms, classes)?;
    check_rows(terms, rows)?;
    composed::cross_entropy_on_device(logits, targets, ignored, terms)
}

fn check_weights(terms: &CrossEntropyTerms, classes: usize) -> Result<()> {
    match &terms.weights {
        Some(weights) if weights.len() != classes => {
            bail!(
                "expected one weight for each of the {classes} classes, found {}",
                weights.len()
            )
        }
        _ => Ok(()),
    }
}

fn check_rows(terms: &CrossEntropyTerms, rows: usize) -> Result<()> {
    match &terms.rows {
        Some(weights) if weights.len() != rows => {
            bail!("{} weights for {rows} rows of logits", weights.len())
        }
        _ => Ok(()),
    }
}

struct CrossEntropyOp {
    /// log Σ exp of each row that counts, for the backward pass.
    log_sums: OnceLock<CpuStorage>,
    targets: Vec<Option<u32>>,
    terms: CrossEntropyTerms,
    divisor: f64,
    classes: usize,
}

impl CrossEntropyOp {
    /// Coefficients in the loss of a row: (of its target, of each class before its weight).
    fn shares(&self, row: usize, target: u32) -> (f64, f64) {
        let weight = |class: u32| match &self.terms.weights {
            Some(weights) => weights.get(class as usize).copied().unwrap_or(0.0),
            None => 1.0,
        };
        let smoothing = self.terms.smoothing;
        let own = (1.0 - smoothing) * weight(target);
        let even = smoothing / self.classes as f64;
        match &self.terms.rows {
            Some(rows) => (own * rows[row], even * rows[row]),
            None => (own, even),
        }
    }

    /// Σ w.
    fn all_weights(&self) -> f64 {
        match &self.terms.weights {
            Some(weights) => weights.iter().sum(),
            None => self.classes as f64,
        }
    }

    fn weight_of<T: Number>(&self) -> Vec<T> {
        let weights = self.terms.weights.iter().flatten();
        weights.map(|&weight| number(weight)).collect()
    }

    /// How the rows are distributed over the threads.
    fn schedule(&self) -> Schedule {
        let rows = self.targets.len();
        Schedule::stealing(region::parts(rows * self.classes * 16), rows, 1)
    }
}

fn plain<T: Number>(number: T) -> f64 {
    WithDType::to_f64(number)
}

/// log Σ exp.
#[inline(always)]
fn log_sum_of<const FUSED: bool, T: Number>(x: &[T]) -> T {
    let most = largest(x);
    let total = sum([x], |[x]| (x - most).fast_exp::<FUSED>());
    most + total.ln()
}

vectorised! {
    /// log Σ exp.
    fn log_sum<T: Number>(x: &[T]) -> T {
        if x.len() < LANES {
            // As whole registers: a remainder would be computed one by one.
            let mut whole = [T::neg_infinity(); LANES];
            whole[..x.len()].copy_from_slice(x);
            return log_sum_of::<FUSED, T>(&whole);
        }
        log_sum_of::<FUSED, T>(x)
    }
}

vectorised! {
    /// Σ w[i] · (log sum − xᵢ), all weights 1 where there are none.
    fn spread<T: Number>(x: &[T], log_sum: T, weights: &[T]) -> T {
        if weights.len() == x.len() {
            sum([x, weights], |[x, weight]| weight * (log_sum - x))
        } else {
            sum([x], |[x]| log_sum - x)
        }
    }
}

vectorised! {
    /// factor · exp(x − log sum) − even · w[i].
    fn row_gradient<'a, T: Number>(
        x: &[T],
        log_sum: T,
        factor: T,
        even: T,
        weights: &[T],
        gradients: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        let share = |x: T| factor * (x - log_sum).fast_exp::<FUSED>();
        if weights.len() == x.len() {
            let both = x.iter().zip(weights);
            write_all(gradients, both.map(|(&x, &w)| share(x) - even * w))
        } else {
            write_all(gradients, x.iter().map(|&x| share(x) - even))
        }
    }
}

impl CustomOp1 for CrossEntropyOp {
    fn name(&self) -> &'static str {
        "cross-entropy"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        for_floats!(storage, T => {
            let x = numbers::<T>(storage, layout)?;
            let weights = self.weight_of::<T>();
            let mut losses = vec![0.0_f64; self.targets.len()];
            let mut log_sums = vec![T::ZERO; self.targets.len()];
            let memory = (Rows::new(&mut losses, 1), Rows::new(&mut log_sums, 1));
            fill_parts(self.schedule(), memory, |rows, (losses, log_sums)| {
                for ((row, loss), kept) in rows.clone().zip(losses).zip(log_sums) {
                    let Some(target) = self.targets[row] else { continue };
                    let x = &x[row * self.classes..(row + 1) * self.classes];
                    let log_sum = log_sum(x);
                    *kept = log_sum;
                    let (own, even) = self.shares(row, target);
                    *loss = own * plain(log_sum - x[target as usize]);
                    if even > 0.0 {
                        *loss += even * plain(spread(x, log_sum, &weights));
                    }
                }
                ((), ())
            });
            // The forward pass runs once per operation, so nothing was set before.
            drop(self.log_sums.set(stored(log_sums)));
            let total = losses.iter().sum::<f64>() / self.divisor;
            Ok((stored(vec![number::<T>(total)]), ().into()))
        })
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let (guard, layout) = x.storage_and_layout();
        let storage = cpu(&guard)?;
        for_floats!(storage, T => {
            let scale = gradient.to_dtype(candle_core::DType::F64)?.to_scalar::<f64>()?;
            let scale = scale / self.divisor;
            let logits = numbers::<T>(storage, layout)?;
            let Some(log_sums) = self.log_sums.get() else {
                bail!("a cross entropy's gradient before its value")
            };
            let log_sums = log_sums.as_slice::<T>()?;
            let weights = self.weight_of::<T>();
            let all = self.all_weights();
            let memory = UninitRows::new(self.targets.len(), self.classes);
            let gradients = fill_parts(self.schedule(), memory, |rows, slots| {
                write_rows(slots, rows, |row, slots| {
                    let Some(target) = self.targets[row] else {
                        return zeros(slots);
                    };
                    let x = &logits[row * self.classes..(row + 1) * self.classes];
                    let (own, even) = self.shares(row, target);
                    let factor = number((own + even * all) * scale);
                    let even = number(even * scale);
                    let gradients = row_gradient(x, log_sums[row], factor, even, &weights, slots);
                    gradients[target as usize] -= number::<T>(own * scale);
                    gradients
                })
            });
            Ok(Some(new_tensor(gradients, x.shape())?))
        })
    }
}
