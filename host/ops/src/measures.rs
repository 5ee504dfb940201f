//! What metrics of logits are made of: on a device without waiting for it, and on the host without a copy of the logits.

use candle_core::{DType, Result, Tensor, WithDType, bail};

use crate::device::copy_to_host;
use crate::kernels::fill::{Rows, Schedule, fill_parts};
use crate::kernels::region;
use crate::storage::{Number, cpu, for_floats, numbers, ready};
use crate::vectorised;

/// How many rows of logits (rows, classes) have their target among the `k` largest, and how many rows count: an `f64` vector of
/// two, on the device of both. Of equal logits, earlier ones rank higher; NaN ranks above all numbers, and as a target's logit it is
/// a miss. Rows whose target is `ignored` don't count. `None` where there is no kernel for the device or the type.
///
/// # Errors
///
/// If there are not as many targets as rows, or the device fails.
pub fn hits(
    logits: &Tensor,
    targets: &Tensor,
    k: usize,
    ignored: Option<u32>,
) -> Result<Option<Tensor>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::measures::hits(logits, targets, k, ignored);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (logits, targets, k, ignored);
        Ok(None)
    }
}

/// The sum of the cross entropies of the rows that count, and their number; otherwise as [`hits`]. NaN where a target is none of
/// the classes.
///
/// # Errors
///
/// As [`hits`].
pub fn cross_entropies(
    logits: &Tensor,
    targets: &Tensor,
    ignored: Option<u32>,
) -> Result<Option<Tensor>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::measures::cross_entropies(logits, targets, ignored);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = (logits, targets, ignored);
        Ok(None)
    }
}

/// For each row of logits (rows, classes) how many of them come before its target's: those that are larger, and equal ones of
/// earlier classes; NaN comes before all numbers. `None` where there is no target, or its logit is NaN.
///
/// # Errors
///
/// If there are not as many targets as rows, or one is none of the classes.
pub fn before_targets(logits: &Tensor, targets: &[Option<u32>]) -> Result<Vec<Option<u32>>> {
    let (logits, classes) = on_host(logits, targets)?;
    let (guard, layout) = logits.storage_and_layout();
    let storage = cpu(&guard)?;
    for_floats!(storage, T => {
        let logits = numbers::<T>(storage, layout)?;
        Ok(of_rows(logits, classes, targets, None, |x, target| {
            (!x[target].is_nan()).then(|| count_before(x, target))
        }))
    })
}

/// For each row of logits (rows, classes) log Σᵢ exp(xᵢ) − x\[target\], in `f64`; 0 where there is no target.
///
/// # Errors
///
/// As [`before_targets`].
pub fn row_cross_entropies(logits: &Tensor, targets: &[Option<u32>]) -> Result<Vec<f64>> {
    let (logits, classes) = on_host(logits, targets)?;
    let (guard, layout) = logits.storage_and_layout();
    let storage = cpu(&guard)?;
    for_floats!(storage, T => {
        let logits = numbers::<T>(storage, layout)?;
        Ok(of_rows(logits, classes, targets, 0.0, cross_entropy_of))
    })
}

/// Logits as `f32` or `f64` on the host, in order, and the number of classes.
fn on_host(logits: &Tensor, targets: &[Option<u32>]) -> Result<(Tensor, usize)> {
    let (rows, classes) = logits.dims2()?;
    if rows != targets.len() {
        bail!("{rows} rows of logits, but {} targets", targets.len())
    }
    if let Some(target) = targets.iter().flatten().find(|&&y| y as usize >= classes) {
        bail!("the target {target} is not one of the outputs' {classes} classes")
    }
    let logits = copy_to_host(&logits.detach())?;
    let logits = match logits.dtype() {
        DType::F32 | DType::F64 => ready(&logits)?,
        _ => logits.to_dtype(DType::F64)?,
    };
    Ok((logits, classes))
}

/// What `find` makes of each row and its target, and `absent` where there is none.
fn of_rows<T: Number, R: Copy + Send + Sync + 'static>(
    logits: &[T],
    classes: usize,
    targets: &[Option<u32>],
    absent: R,
    find: impl Fn(&[T], usize) -> R + Sync,
) -> Vec<R> {
    let mut found = vec![absent; targets.len()];
    let threads = region::parts(logits.len() * EACH);
    let schedule = Schedule::stealing(threads, targets.len(), 1);
    fill_parts(schedule, Rows::new(&mut found, 1), |rows, found| {
        for (row, found) in rows.clone().zip(found) {
            if let Some(target) = targets[row] {
                let x = &logits[row * classes..(row + 1) * classes];
                *found = find(x, target as usize);
            }
        }
    });
    found
}

/// Cost of a logit in operations, from which the number of threads follows.
const EACH: usize = 8;

vectorised! {
    fn count_before<T: Number>(x: &[T], target: usize) -> u32 {
        let own = x[target];
        let (earlier, later) = x.split_at(target);
        let of_earlier: u32 = earlier.iter().map(|&x| u32::from(x >= own || x.is_nan())).sum();
        let of_later: u32 = later.iter().map(|&x| u32::from(x > own || x.is_nan())).sum();
        of_earlier + of_later
    }
}

fn cross_entropy_of<T: Number>(x: &[T], target: usize) -> f64 {
    let numbers = || x.iter().map(|&x| WithDType::to_f64(x));
    let largest = numbers().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = numbers().map(|x| (x - largest).exp()).sum();
    sum.ln() + largest - WithDType::to_f64(x[target])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_before_a_targets_are_counted() -> Result<()> {
        let nan = f32::NAN;
        let rows = [
            [1.0, 3.0, 2.0, 3.0],
            [1.0, 3.0, 2.0, 3.0],
            [nan, 0.0, nan, 1.0],
            [nan, 0.0, 5.0, 1.0],
            [0.0, 0.0, 0.0, 0.0],
        ];
        let targets = [Some(3), Some(1), Some(3), Some(0), None];
        let expected = [Some(1), Some(0), Some(2), None, None];
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let logits = Tensor::new(&rows, &crate::device::for_tests())?.to_dtype(dtype)?;
            assert_eq!(before_targets(&logits, &targets)?, expected, "{dtype:?}");
            assert!(before_targets(&logits, &[None; 4]).is_err());
            assert!(before_targets(&logits, &[Some(4); 5]).is_err());
        }
        Ok(())
    }

    #[test]
    fn cross_entropies_are_those_of_each_row() -> Result<()> {
        let rows = [[0.0_f32, 2.0_f32.ln()], [1.0, 1.0], [7.0, 8.0]];
        let logits = Tensor::new(&rows, &crate::device::for_tests())?;
        let found = row_cross_entropies(&logits, &[Some(1), Some(0), None])?;
        for (found, expected) in found.iter().zip([1.5_f64.ln(), 2.0_f64.ln(), 0.0]) {
            assert!((found - expected).abs() < 1e-7, "{found} {expected}");
        }
        Ok(())
    }
}
