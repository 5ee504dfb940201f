//! Images enlarged, with a gradient that is right where candle's is not.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};

use crate::autograd::constants::seen;
use crate::autograd::custom_gradient::custom_gradient;
use crate::autograd::tape::apply1;
use crate::composed;
use crate::kernels::fill::{Schedule, UninitRows, fill_parts};
use crate::kernels::math::number;
use crate::kernels::{region, write_rows, zeros};
use crate::options::{Tap, Upsampling};
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};

/// Cost of an element in operations, from which the number of threads follows.
const EACH: usize = 8;

/// Enlarges images (batch, channels, height, width) by whole factors (down, across).
pub fn upsample2d(x: &Tensor, factors: (usize, usize), kind: Upsampling) -> Result<Tensor> {
    let (.., height, width) = x.dims4()?;
    if factors.0 == 0 || factors.1 == 0 {
        bail!("images can't be enlarged by {factors:?}")
    }
    if composed::is_chosen(x) {
        return by_matrices(x, factors, kind);
    }
    let op = Upsample {
        down: kind.taps(height, factors.0),
        across: kind.taps(width, factors.1),
    };
    apply1(&ready(x)?, op)
}

/// `a` with this share of `b`. Nothing of an infinite `b` without a share.
#[inline(always)]
fn mixed<T: Number>(a: T, b: T, share: T) -> T {
    if share == T::ZERO {
        a
    } else {
        a + share * (b - a)
    }
}

struct Upsample {
    down: Vec<Tap>,
    across: Vec<Tap>,
}

impl Upsample {
    /// Enlarges an image whose lines have `width` elements.
    fn enlarge<T: Number>(&self, x: &[T], width: usize, y: &mut [T]) {
        let lines = y.chunks_exact_mut(self.across.len().max(1));
        for (y, down) in lines.zip(&self.down) {
            let line = |row: usize| x.get(row * width..(row + 1) * width).unwrap_or_default();
            let (upper, lower) = (line(down.first), line(down.second));
            let share = number::<T>(down.share);
            for (y, across) in y.iter_mut().zip(&self.across) {
                let between = |line: &[T]| {
                    let (left, right) = (line[across.first], line[across.second]);
                    mixed(left, right, number::<T>(across.share))
                };
                *y = mixed(between(upper), between(lower), share);
            }
        }
    }

    /// Adds the gradients of an enlarged image to those of the image.
    fn reduce<T: Number>(&self, g: &[T], width: usize, of_x: &mut [T]) {
        let lines = g.chunks_exact(self.across.len().max(1));
        for (g, down) in lines.zip(&self.down) {
            let shares = [(down.first, 1.0 - down.share), (down.second, down.share)];
            for (row, share) in shares.into_iter().filter(|(_, share)| *share != 0.0) {
                let line = &mut of_x[row * width..(row + 1) * width];
                for (&g, across) in g.iter().zip(&self.across) {
                    line[across.first] += g * number::<T>(share * (1.0 - across.share));
                    line[across.second] += g * number::<T>(share * across.share);
                }
            }
        }
    }

    fn size(&self) -> usize {
        self.down.len() * self.across.len()
    }
}

impl CustomOp1 for Upsample {
    fn name(&self) -> &'static str {
        "upsample2d"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (batch, channels, height, width) = layout.shape().dims4()?;
        let (planes, size) = (batch * channels, height * width);
        for_floats!(storage, T => {
            let x = numbers::<T>(storage, layout)?;
            let threads = region::parts(planes * self.size() * EACH);
            let schedule = Schedule::per_thread(threads, planes, 1);
            let y = fill_parts(schedule, UninitRows::new(planes, self.size()), |range, slots| {
                write_rows(slots, range, |plane, slots| {
                    let y = zeros(slots);
                    self.enlarge(&x[plane * size..(plane + 1) * size], width, y);
                    y
                })
            });
            Ok((stored(y), (batch, channels, self.down.len(), self.across.len()).into()))
        })
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let (batch, channels, height, width) = x.dims4()?;
        let (planes, size) = (batch * channels, height * width);
        let gradient = ready(gradient)?;
        let (guard, layout) = gradient.storage_and_layout();
        let storage = cpu(&guard)?;
        for_floats!(storage, T => {
            let g = numbers::<T>(storage, layout)?;
            let threads = region::parts(planes * self.size() * EACH);
            let schedule = Schedule::per_thread(threads, planes, 1);
            let of_x = fill_parts(schedule, UninitRows::new(planes, size), |range, slots| {
                write_rows(slots, range, |plane, slots| {
                    let of_x = zeros(slots);
                    let own = plane * self.size()..(plane + 1) * self.size();
                    self.reduce(&g[own], width, of_x);
                    of_x
                })
            });
            Ok(Some(new_tensor(of_x, x.shape())?))
        })
    }
}

/// [`upsample2d`] by a matrix for each dimension, (enlarged, length).
fn by_matrices(x: &Tensor, factors: (usize, usize), kind: Upsampling) -> Result<Tensor> {
    let (batch, channels, height, width) = x.dims4()?;
    let matrix = |length: usize, factor: usize| {
        let mut matrix = vec![0.0_f64; length * factor * length];
        for (line, tap) in matrix
            .chunks_exact_mut(length.max(1))
            .zip(kind.taps(length, factor))
        {
            line[tap.first] += 1.0 - tap.share;
            line[tap.second] += tap.share;
        }
        Tensor::from_vec(matrix, (length * factor, length), x.device())?.to_dtype(x.dtype())
    };
    let (down, across) = (matrix(height, factors.0)?, matrix(width, factors.1)?);
    let along = move |x: &Tensor, [down, across]: [&Tensor; 2], sizes: [usize; 3]| {
        let [rows, columns, enlarged] = sizes;
        // Along the lines, then along the columns.
        let x = x
            .contiguous()?
            .reshape((batch * channels * rows, columns))?;
        let x = x
            .matmul(&across.t()?)?
            .reshape((batch * channels, rows, enlarged))?;
        let x = x
            .transpose(1, 2)?
            .contiguous()?
            .reshape((batch * channels * enlarged, rows))?;
        let x = x
            .matmul(&down.t()?)?
            .reshape((batch * channels, enlarged, ()))?;
        let x = x.transpose(1, 2)?.contiguous()?;
        let lines = x.dim(1)?;
        x.reshape((batch, channels, lines, enlarged))
    };
    let y = along(
        &seen(x).detach(),
        [&down, &across],
        [height, width, width * factors.1],
    )?;
    custom_gradient([x], y, move |_, gradient, _| {
        let (down, across) = (down.t()?.contiguous()?, across.t()?.contiguous()?);
        let sizes = [height * factors.0, width * factors.1, width];
        Ok([Some(along(gradient, [&down, &across], sizes)?)])
    })
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Var};

    use super::*;
    use crate::gradient_check::check_gradients;
    use crate::normal_numbers;

    #[test]
    fn gradients_are_right_also_where_the_input_is_used_twice() {
        let x = normal_numbers(1, (2, 2, 3, 2)).and_then(|x| x.to_dtype(DType::F64));
        let x = x.and_then(|x| Var::from_tensor(&x)).expect("a variable");
        for kind in [Upsampling::Nearest, Upsampling::Bilinear] {
            for upsample in [upsample2d, by_matrices] {
                let report = check_gradients(std::slice::from_ref(&x), |inputs| {
                    let large = upsample(&inputs[0], (2, 3), kind)?;
                    large.sqr()?.sum_all()?.add(&inputs[0].sqr()?.sum_all()?)
                });
                assert!(report.is_right(), "{kind:?}: {report}");
            }
            let (one, other) = (upsample2d(&x, (3, 2), kind), by_matrices(&x, (3, 2), kind));
            let apart = (one.expect("y") - other.expect("y")).and_then(|x| x.abs()?.max_all());
            let apart = apart.and_then(|x| x.to_scalar::<f64>()).expect("a number");
            assert!(apart < 1e-12, "{kind:?}: {apart}");
        }
        assert!(upsample2d(&x, (0, 1), Upsampling::Nearest).is_err());
    }
}
