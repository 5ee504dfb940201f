//! Sequences of vectors: transposition, and the mean over the positions; candle's would end the tape.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};

use crate::autograd::tape::apply1;
use crate::kernels::fill::{Schedule, UninitRows, fill_parts};
use crate::kernels::math::number;
use crate::kernels::{region, write_all, write_rows, zeros};
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};
use crate::{composed, vectorised};

/// Cost of an element in operations, from which the number of threads follows.
const EACH: usize = 4;

/// Side of the squares in which a matrix is transposed, so that the rows read and written are in the cache.
const SQUARE: usize = 16;

/// Swaps the last two dimensions of (batch, rows, columns); the result is contiguous.
pub fn transpose(x: &Tensor) -> Result<Tensor> {
    if composed::is_chosen(x) {
        return composed::transpose(x);
    }
    apply1(&ready(x)?, Transpose)
}

/// Mean over the positions of (batch, length, width): (batch, width).
///
/// # Errors
///
/// If there are no positions.
pub fn mean_positions(x: &Tensor) -> Result<Tensor> {
    if composed::is_chosen(x) {
        return composed::mean_positions(x);
    }
    apply1(&ready(x)?, MeanPositions)
}

/// Size of (batch, rows, columns).
fn sizes(name: &str, dims: &[usize]) -> Result<[usize; 3]> {
    match *dims {
        [batch, rows, columns] => Ok([batch, rows, columns]),
        _ => bail!("{name} wants (batch, rows, columns), found {dims:?}"),
    }
}

struct Transpose;

/// Transposes a matrix of `columns` columns.
fn transpose_matrix<T: Number>(x: &[T], columns: usize, y: &mut [T]) {
    let rows = x.len() / columns.max(1);
    for top in (0..rows).step_by(SQUARE) {
        for left in (0..columns).step_by(SQUARE) {
            for column in left..columns.min(left + SQUARE) {
                let y = &mut y[column * rows..(column + 1) * rows];
                for row in top..rows.min(top + SQUARE) {
                    y[row] = x[row * columns + column];
                }
            }
        }
    }
}

/// Transposes each of `batch` matrices of `rows` × `columns`.
fn transposed<T: Number>(x: &[T], [batch, rows, columns]: [usize; 3]) -> Vec<T> {
    let size = rows * columns;
    let schedule = Schedule::per_thread(region::parts(x.len() * EACH), batch, 1);
    fill_parts(schedule, UninitRows::new(batch, size), |range, slots| {
        write_rows(slots, range, |index, slots| {
            let y = zeros(slots);
            transpose_matrix(&x[index * size..(index + 1) * size], columns, y);
            y
        })
    })
}

impl CustomOp1 for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let [batch, rows, columns] = sizes("a transposition", layout.dims())?;
        for_floats!(storage, T => {
            let y = transposed(numbers::<T>(storage, layout)?, [batch, rows, columns]);
            Ok((stored(y), (batch, columns, rows).into()))
        })
    }

    fn bwd(&self, x: &Tensor, y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let sizes = sizes("a transposition", y.dims())?;
        let gradient = ready(gradient)?;
        let (guard, layout) = gradient.storage_and_layout();
        let storage = cpu(&guard)?;
        for_floats!(storage, T => {
            let of_x = transposed(numbers::<T>(storage, layout)?, sizes);
            Ok(Some(new_tensor(of_x, x.shape())?))
        })
    }
}

struct MeanPositions;

vectorised! {
    /// Adds all rows of `x` to `sums` in their order, then multiplies by `factor`.
    fn mean_of_rows<T: Number>(x: &[T], factor: T, sums: &mut [T]) {
        for row in x.chunks_exact(sums.len().max(1)) {
            for (sum, &x) in sums.iter_mut().zip(row) {
                *sum += x;
            }
        }
        for sum in sums {
            *sum *= factor;
        }
    }
}

impl CustomOp1 for MeanPositions {
    fn name(&self) -> &'static str {
        "mean-positions"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let [batch, length, width] = sizes("a mean over positions", layout.dims())?;
        if length == 0 {
            bail!(
                "a mean over positions of {:?}: there are none",
                layout.dims()
            )
        }
        for_floats!(storage, T => {
            let x = numbers::<T>(storage, layout)?;
            let factor = number::<T>(1.0 / length as f64);
            let schedule = Schedule::per_thread(region::parts(x.len() * EACH), batch, 1);
            let y = fill_parts(schedule, UninitRows::new(batch, width), |range, slots| {
                write_rows(slots, range, |index, slots| {
                    let sums = zeros(slots);
                    let size = length * width;
                    mean_of_rows(&x[index * size..(index + 1) * size], factor, sums);
                    sums
                })
            });
            Ok((stored(y), (batch, width).into()))
        })
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let [batch, length, width] = sizes("a mean over positions", x.dims())?;
        let gradient = ready(gradient)?;
        let (guard, layout) = gradient.storage_and_layout();
        let storage = cpu(&guard)?;
        for_floats!(storage, T => {
            let g = numbers::<T>(storage, layout)?;
            let factor = number::<T>(1.0 / length as f64);
            let schedule = Schedule::per_thread(region::parts(batch * length * width * EACH), batch * length, 1);
            let of_x = fill_parts(schedule, UninitRows::new(batch * length, width), |range, slots| {
                write_rows(slots, range, |row, slots| {
                    let start = row / length * width;
                    write_all(slots, g[start..start + width].iter().map(|&g| g * factor))
                })
            });
            Ok(Some(new_tensor(of_x, x.shape())?))
        })
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Var};

    use super::*;
    use crate::gradient_check::check_gradients;
    use crate::normal_numbers;

    /// Larger than a square, with a remainder.
    const SHAPE: (usize, usize, usize) = (3, 18, 35);

    #[test]
    fn values_are_candles() {
        let x = normal_numbers(1, SHAPE).expect("x");
        let bits = |tensor: Tensor| tensor.flatten_all().and_then(|flat| flat.to_vec1::<f32>());
        let turned = transpose(&x).expect("a transposition");
        assert_eq!(turned.dims(), [3, 35, 18]);
        let expected = x.transpose(1, 2).expect("candle's");
        assert_eq!(bits(turned).expect("y"), bits(expected).expect("y"));
        let (mean, expected) = (mean_positions(&x).expect("a mean"), x.mean(1).expect("y"));
        assert_eq!(mean.dims(), [3, 35]);
        let (mean, expected) = (bits(mean).expect("y"), bits(expected).expect("y"));
        for (mean, expected) in mean.iter().zip(&expected) {
            assert!((mean - expected).abs() < 1e-6, "{mean} {expected}");
        }
        assert!(mean_positions(&x.narrow(1, 0, 0).expect("nothing")).is_err());
        assert!(transpose(&x.flatten_all().expect("flat")).is_err());
    }
    #[test]
    fn gradients_are_right() {
        let x = normal_numbers(2, (2, 3, 4)).and_then(|x| x.to_dtype(DType::F64));
        let x = x.and_then(|x| Var::from_tensor(&x)).expect("x");
        for f in [transpose as fn(&Tensor) -> Result<Tensor>, mean_positions] {
            // Squared, so that the gradients of the elements differ.
            let report = check_gradients(std::slice::from_ref(&x), |inputs| f(&inputs[0])?.sqr());
            assert!(report.is_right(), "{report}");
        }
    }
}
