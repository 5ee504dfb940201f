//! Metrics for numeric targets, over all elements of (samples, numbers).

use candle_core::{DType, Result, Tensor, bail};

use super::exact::{CompensatedSum, spread};
use super::on_device::sum_and_count;
use super::{Metric, add_to, plain, ratio};
use crate::loss::shapes::numbers;

/// Returns (output, target) for each element, in row-major order.
fn pairs(outputs: &Tensor, targets: &Tensor) -> Result<Vec<(f64, f64)>> {
    numbers(outputs, targets)?;
    let found = plain(&outputs.detach())?.into_iter();
    Ok(found.zip(plain(targets)?).collect())
}

/// |output − target| of each element.
fn absolute_errors(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    (outputs - targets)?.abs()
}

/// (output − target)² of each element.
fn squared_errors(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    (outputs - targets)?.sqr()
}

/// 1 for each element whose logit is above 0 exactly if its target is above ½, else 0.
fn binary_hits(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let is_hit = outputs.gt(0.0)?.eq(&targets.gt(0.5)?)?;
    let is_number = outputs.eq(outputs)?;
    is_hit.to_dtype(DType::F64)? * is_number.to_dtype(DType::F64)?
}

macro_rules! mean {
    (
        $(#[$doc:meta])* $Metric:ident, $name:literal,
        |$found:ident, $wanted:ident| $part:expr, $on_device:path, $finish:expr
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $Metric;

        impl Metric for $Metric {
            fn names(&self) -> Vec<String> {
                vec![$name.to_owned()]
            }

            /// Sum over the elements and number of elements.
            fn sum_count(&self) -> usize {
                2
            }

            fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()> {
                let pairs = pairs(outputs, targets)?;
                for &($found, $wanted) in &pairs {
                    add_to(sums, 0, $part);
                }
                add_to(sums, 1, pairs.len() as f64);
                Ok(())
            }

            fn sums_on_device(&self, outputs: &Tensor, targets: &Tensor) -> Result<Option<Tensor>> {
                let targets = numbers(outputs, targets)?.to_dtype(DType::F64)?;
                let outputs = outputs.detach().to_dtype(DType::F64)?;
                let parts = $on_device(&outputs, &targets)?;
                sum_and_count(&parts.sum_all()?, outputs.elem_count()).map(Some)
            }

            fn values(&self, sums: &[f64], values: &mut [f64]) {
                ratio(sums, values, $finish);
            }
        }
    };
}

mean! {
    /// Mean absolute error.
    Mae, "mae", |found, wanted| (found - wanted).abs(), absolute_errors, |mean| mean
}

mean! {
    /// Root mean squared error.
    Rmse, "rmse", |found, wanted| (found - wanted) * (found - wanted), squared_errors, f64::sqrt
}

mean! {
    /// Fraction of elements whose logit is above 0 exactly if the target is above ½.
    BinaryAccuracy, "binary_accuracy",
    |found, wanted| f64::from(u8::from((found > 0.0) == (wanted > 0.5) && !found.is_nan())),
    binary_hits,
    |share| share
}

/// Coefficient of determination, 1 − Σ(y − x)² / Σ(y − ȳ)² for each target, and the mean of these:
/// scikit-learn's `r2_score` with its `uniform_average`. A constant target counts as 1 if all its
/// predictions are exact, else as 0; with fewer than two samples the result is NaN.
#[derive(Clone, Copy, Debug)]
pub struct R2 {
    columns: usize,
}

impl R2 {
    /// Sums per target: squared errors; sum and sum of squares of the targets, each with its rounding
    /// error.
    const SUMS: usize = 5;

    /// Creates the metric for this many numeric targets.
    pub fn new(columns: usize) -> R2 {
        R2 { columns }
    }
}

impl Metric for R2 {
    fn names(&self) -> Vec<String> {
        vec!["r2".to_owned()]
    }

    /// Number of samples, and the sums of each target.
    fn sum_count(&self) -> usize {
        1 + Self::SUMS * self.columns
    }

    fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()> {
        let pairs = pairs(outputs, targets)?;
        let (samples, columns) = targets.dims2()?;
        if columns != self.columns {
            bail!(
                "{columns} numbers for each sample, where the data has {}",
                self.columns
            );
        }
        let Some((count, sums)) = sums.split_first_mut() else {
            return Ok(());
        };
        *count += samples as f64;
        for row in pairs.chunks_exact(columns.max(1)) {
            for (&(found, wanted), sums) in row.iter().zip(sums.chunks_exact_mut(Self::SUMS)) {
                if let [errors, sum, rest, squares, rest_of_squares] = sums {
                    *errors += (wanted - found) * (wanted - found);
                    CompensatedSum { sum, rest }.add(wanted);
                    // Targets are f32, so that their squares are exact in f64.
                    let squares = CompensatedSum {
                        sum: squares,
                        rest: rest_of_squares,
                    };
                    squares.add(wanted * wanted);
                }
            }
        }
        Ok(())
    }

    /// Rounding errors are kept, as within a batch.
    fn merge(&self, sums: &mut [f64], batch: &[f64]) {
        let (Some((count, sums)), Some((counted, batch))) =
            (sums.split_first_mut(), batch.split_first())
        else {
            return;
        };
        *count += counted;
        let columns = sums.chunks_exact_mut(Self::SUMS);
        for (sums, batch) in columns.zip(batch.chunks_exact(Self::SUMS)) {
            if let ([errors, sum, rest, squares, rest_of_squares], &[e, s, r, q, p]) = (sums, batch)
            {
                *errors += e;
                CompensatedSum {
                    sum,
                    rest: &mut *rest,
                }
                .add(s);
                *rest += r;
                let squares = CompensatedSum {
                    sum: squares,
                    rest: &mut *rest_of_squares,
                };
                squares.add(q);
                *rest_of_squares += p;
            }
        }
    }

    fn values(&self, sums: &[f64], values: &mut [f64]) {
        let (Some((&count, sums)), Some(value)) = (sums.split_first(), values.first_mut()) else {
            return;
        };
        let of_columns = sums.chunks_exact(Self::SUMS).map(|sums| match *sums {
            [errors, sum, rest, squares, rest_of_squares] => {
                let spread = spread(count, (sum, rest), (squares, rest_of_squares));
                if spread > 0.0 {
                    1.0 - errors / spread
                } else {
                    f64::from(u8::from(errors <= 0.0))
                }
            }
            _ => f64::NAN,
        });
        let total: f64 = of_columns.sum();
        *value = if count < 2.0 {
            f64::NAN
        } else {
            total / self.columns as f64
        };
    }
}
