//! Sums of metrics by operations on the outputs' device.

use candle_core::{D, DType, Result, Tensor};
use sconce_ops::measures;

/// Elements of logits looked at together, which bounds the memory for intermediate results.
const MOST_ELEMENTS: usize = 1 << 26;

/// A sum, a scalar of any float type, and a number of elements, as a vector of `f64`.
pub(super) fn sum_and_count(sum: &Tensor, count: usize) -> Result<Tensor> {
    let sum = sum.to_dtype(DType::F64)?.reshape(1)?;
    let count = Tensor::full(count as f64, 1, sum.device())?;
    Tensor::cat(&[sum, count], 0)
}

/// Logits and target classes of samples or positions, on a device.
struct DeviceRows {
    /// Shape (rows, classes), detached.
    logits: Tensor,
    /// Shape (rows, 1); 0 where the row doesn't count.
    targets: Tensor,
    /// 1 for each row that counts, else 0, of shape (rows); `None` if all count.
    counted: Option<Tensor>,
}

/// The number of rows of outputs (…, classes) with their targets (…) among the k largest, by the rules of [`TopK`](super::TopK), and
/// that of the rows that count, as a vector of `f64`: those with other targets than `ignored`.
pub(super) fn hits(
    outputs: &Tensor,
    targets: &Tensor,
    k: usize,
    ignored: Option<u32>,
) -> Result<Tensor> {
    let (logits, own) = in_rows(outputs, targets)?;
    if let Some(sums) = measures::hits(&logits, &own, k, ignored)? {
        return Ok(sums);
    }
    DeviceRows::new(outputs, targets, ignored)?.sums(|rows| rows.hits(k))
}

/// The sum of the cross entropies of the rows that count, and their number; as [`hits`].
pub(super) fn cross_entropies(
    outputs: &Tensor,
    targets: &Tensor,
    ignored: Option<u32>,
) -> Result<Tensor> {
    let (logits, own) = in_rows(outputs, targets)?;
    if let Some(sums) = measures::cross_entropies(&logits, &own, ignored)? {
        return Ok(sums);
    }
    DeviceRows::new(outputs, targets, ignored)?.sums(DeviceRows::cross_entropies)
}

/// Outputs of shape (rows, classes), detached, and targets of shape (rows).
fn in_rows(outputs: &Tensor, targets: &Tensor) -> Result<(Tensor, Tensor)> {
    let rows = targets.elem_count();
    let logits = outputs.detach().reshape((rows, ()))?;
    Ok((logits, targets.reshape(rows)?))
}

impl DeviceRows {
    /// Takes outputs (…, classes) and targets (…), of which those equal to `ignored` don't count.
    fn new(outputs: &Tensor, targets: &Tensor, ignored: Option<u32>) -> Result<DeviceRows> {
        let rows = targets.elem_count();
        let logits = outputs.detach().reshape((rows, ()))?;
        let targets = targets.reshape((rows, 1))?;
        let Some(ignored) = ignored else {
            return Ok(DeviceRows {
                logits,
                targets,
                counted: None,
            });
        };
        let is_counted = targets.ne(ignored)?;
        Ok(DeviceRows {
            logits,
            targets: is_counted.where_cond(&targets, &targets.zeros_like()?)?,
            counted: Some(is_counted.squeeze(1)?),
        })
    }

    /// The sum of a value of each row that counts, and the number of these rows, as a vector of `f64`.
    fn sums(&self, of_rows: impl Fn(&DeviceRows) -> Result<Tensor>) -> Result<Tensor> {
        let (rows, classes) = self.logits.dims2()?;
        let most = (MOST_ELEMENTS / classes.max(1)).max(1);
        let mut values = Vec::with_capacity(rows.div_ceil(most));
        for first in (0..rows).step_by(most) {
            values.push(of_rows(&self.part(first, most.min(rows - first))?)?);
        }
        if values.is_empty() {
            return Tensor::zeros(2, DType::F64, self.logits.device());
        }
        let values = Tensor::cat(&values, 0)?.to_dtype(DType::F64)?;
        let Some(counted) = &self.counted else {
            return sum_and_count(&values.sum_all()?, rows);
        };
        // Not multiplied: 0 · NaN would be NaN.
        let values = counted.where_cond(&values, &values.zeros_like()?)?;
        let count = counted.to_dtype(DType::F64)?.sum_all()?;
        Tensor::cat(&[values.sum_all()?.reshape(1)?, count.reshape(1)?], 0)
    }

    fn part(&self, first: usize, count: usize) -> Result<DeviceRows> {
        Ok(DeviceRows {
            logits: self.logits.narrow(0, first, count)?,
            targets: self.targets.narrow(0, first, count)?.contiguous()?,
            counted: None,
        })
    }

    /// The logit of each row's target, of shape (rows, 1).
    fn own(&self) -> Result<Tensor> {
        self.logits.gather(&self.targets, 1)
    }

    /// 1 for each row with the target among the k largest logits, else 0, by the rules of [`TopK`](super::TopK).
    fn hits(&self, k: usize) -> Result<Tensor> {
        let (logits, own) = (&self.logits, self.own()?);
        let classes = Tensor::arange(0, logits.dim(1)? as u32, logits.device())?.unsqueeze(0)?;
        let count = |found: Tensor| found.to_dtype(DType::F32)?.sum(D::Minus1);
        let larger = count(logits.broadcast_gt(&own)?)?;
        let is_earlier = classes.broadcast_lt(&self.targets)?;
        let earlier_equals = count((logits.broadcast_eq(&own)? * is_earlier)?)?;
        // NaN ranks above all numbers.
        let not_numbers = count(logits.ne(logits)?)?;
        let before = ((larger + earlier_equals)? + not_numbers)?;
        let is_hit = before.lt(k as f64)?;
        let is_number = own.eq(&own)?.squeeze(1)?;
        (is_hit * is_number)?.to_dtype(DType::F64)
    }

    /// The cross entropy of each row.
    fn cross_entropies(&self) -> Result<Tensor> {
        let logits = self.logits.to_dtype(DType::F32)?;
        let own = self.own()?.to_dtype(DType::F32)?.squeeze(1)?;
        let largest = logits.max_keepdim(D::Minus1)?;
        let sums = logits.broadcast_sub(&largest)?.exp()?.sum(D::Minus1)?;
        (sums.log()? + largest.squeeze(1)?)? - own
    }
}
