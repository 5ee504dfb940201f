//! Softmax and cross entropy as one operation.

use std::sync::OnceLock;

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor, bail};

use super::target_rows::{RowTerms, TargetRows, check_rows, check_weights};
use crate::autograd::tape::apply1;
use crate::composed;
use crate::kernels::fill::{Rows, UninitRows, fill_parts};
use crate::kernels::math::number;
use crate::kernels::{write_rows, zeros};
use crate::options::CrossEntropyTerms;
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};

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
    let rows = TargetRows::new([rows, classes], targets, terms, divisor)?;
    if composed::is_chosen(logits) {
        return composed::cross_entropy(logits, rows.targets(), rows.terms(), rows.divisor());
    }
    let op = CrossEntropyOp {
        log_sums: OnceLock::new(),
        rows,
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

struct CrossEntropyOp {
    /// log Σ exp of each row that counts, for the backward pass.
    log_sums: OnceLock<CpuStorage>,
    rows: TargetRows,
}

impl CustomOp1 for CrossEntropyOp {
    fn name(&self) -> &'static str {
        "cross-entropy"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        for_floats!(storage, T => {
            let x = numbers::<T>(storage, layout)?;
            let (count, classes) = (self.rows.count(), self.rows.classes());
            let terms = RowTerms::<T>::of(&self.rows);
            let mut losses = vec![0.0_f64; count];
            let mut log_sums = vec![T::ZERO; count];
            let memory = (Rows::new(&mut losses, 1), Rows::new(&mut log_sums, 1));
            fill_parts(self.rows.schedule(count), memory, |rows, (losses, log_sums)| {
                for ((row, loss), kept) in rows.clone().zip(losses).zip(log_sums) {
                    let x = &x[row * classes..(row + 1) * classes];
                    if let Some(found) = terms.loss(row, x) {
                        (*loss, *kept) = found;
                    }
                }
                ((), ())
            });
            // The forward pass runs once per operation, so nothing was set before.
            drop(self.log_sums.set(stored(log_sums)));
            let loss = number::<T>(self.rows.mean(&losses));
            Ok((stored(vec![loss]), ().into()))
        })
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let (guard, layout) = x.storage_and_layout();
        let storage = cpu(&guard)?;
        for_floats!(storage, T => {
            let scale = gradient.to_dtype(DType::F64)?.to_scalar::<f64>()?;
            let scale = scale / self.rows.divisor();
            let logits = numbers::<T>(storage, layout)?;
            let Some(log_sums) = self.log_sums.get() else {
                bail!("a cross entropy's gradient before its value")
            };
            let log_sums = log_sums.as_slice::<T>()?;
            let (count, classes) = (self.rows.count(), self.rows.classes());
            let terms = RowTerms::<T>::of(&self.rows);
            let memory = UninitRows::new(count, classes);
            let gradients = fill_parts(self.rows.schedule(count), memory, |rows, slots| {
                write_rows(slots, rows, |row, slots| {
                    let Some(factors) = terms.factors(row, scale) else {
                        return zeros(slots);
                    };
                    let x = &logits[row * classes..(row + 1) * classes];
                    terms.write_gradients(&factors, x, log_sums[row], slots)
                })
            });
            Ok(Some(new_tensor(gradients, x.shape())?))
        })
    }
}
