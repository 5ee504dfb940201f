//! Max and mean pooling over the last two dimensions, with any windows.
//!
//! The gradient of candle's `max_pool2d` is too small by a factor of the window size.

mod quads;
pub(crate) mod upsample;

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor, WithDType, bail,
};

use crate::autograd::tape::apply1;
use crate::composed;
use crate::kernels::fill::{Schedule, UninitRows, fill_parts};
use crate::kernels::{region, write_rows, zeros};
use crate::options::{PoolKind, Windows};
use crate::storage::{Number, for_floats, number, numbers, ready};
pub(crate) use quads::{is_next, quads_with_positions, spread_quads};
use quads::{quad_gradient, quads};

/// Pools (…, height, width) to (…, windows along the height, windows along the width).
pub fn pool2d(x: &Tensor, kind: PoolKind, down: Windows, across: Windows) -> Result<Tensor> {
    if composed::is_chosen(x) {
        return composed::pool2d(x, kind, &down, &across);
    }
    apply1(&ready(x)?, PoolOp { kind, down, across })
}

#[derive(Clone)]
struct PoolOp {
    kind: PoolKind,
    down: Windows,
    across: Windows,
}

struct PoolGradient(PoolOp);

/// Sizes for a pass over the planes, the images of one channel.
struct Planes {
    height: usize,
    width: usize,
    outputs: usize,
    shape: Shape,
}

impl PoolOp {
    fn planes(&self, layout: &Layout) -> Result<Planes> {
        let [leading @ .., height, width] = layout.dims() else {
            bail!(
                "pooling wants (…, height, width), found {:?}",
                layout.dims()
            )
        };
        let (rows, columns) = (self.down.count(), self.across.count());
        let mut shape = leading.to_vec();
        shape.extend([rows, columns]);
        Ok(Planes {
            height: *height,
            width: *width,
            outputs: rows * columns,
            shape: shape.into(),
        })
    }

    /// Calls `at(output, window's rows, window's columns, size with padding)` for each window of a plane.
    fn windows(&self, mut at: impl FnMut(usize, (usize, usize), (usize, usize), usize)) {
        let mut output = 0;
        for (rows, high) in self.down.ranges.iter().zip(&self.down.sizes) {
            for (columns, wide) in self.across.ranges.iter().zip(&self.across.sizes) {
                at(output, *rows, *columns, high * wide);
                output += 1;
            }
        }
    }

    /// Whether this is max pooling with a 2 × 2 kernel and stride 2.
    fn is_quads(&self) -> bool {
        let twos = |windows: &Windows| {
            let mut ranges = windows.ranges.iter().enumerate();
            ranges.all(|(index, range)| *range == (2 * index, 2 * index + 2))
        };
        self.kind == PoolKind::Max && twos(&self.down) && twos(&self.across)
    }

    /// Pools one plane.
    fn plane<T: Number>(&self, x: &[T], width: usize, y: &mut [T]) {
        if self.is_quads() {
            return quads(x, width, self.across.count(), y);
        }
        self.windows(|output, rows, columns, size| {
            y[output] = match self.kind {
                PoolKind::Max => largest(x, width, rows, columns).1,
                PoolKind::Mean => {
                    let mut sum = T::ZERO;
                    for row in rows.0..rows.1 {
                        let start = row * width;
                        let line = &x[start + columns.0..start + columns.1];
                        sum = line.iter().fold(sum, |sum, &x| sum + x);
                    }
                    sum / number(size as f64)
                }
            };
        });
    }

    /// Adds the gradient of one plane's input to `gradients`.
    fn plane_gradient<T: Number>(&self, x: &[T], g: &[T], width: usize, gradients: &mut [T]) {
        if self.is_quads() {
            return quad_gradient(x, g, width, self.across.count(), gradients);
        }
        self.windows(|output, rows, columns, size| match self.kind {
            PoolKind::Max => {
                if let (Some(position), _) = largest(x, width, rows, columns) {
                    gradients[position] += g[output];
                }
            }
            PoolKind::Mean => {
                let each = g[output] / number(size as f64);
                for row in rows.0..rows.1 {
                    let start = row * width;
                    for gradient in &mut gradients[start + columns.0..start + columns.1] {
                        *gradient += each;
                    }
                }
            }
        });
    }

    fn forward<T: Number>(&self, x: &[T], sizes: &Planes) -> Vec<T> {
        let (size, outputs) = (sizes.size(), sizes.outputs);
        let memory = UninitRows::new(x.len() / size, outputs);
        fill_parts(schedule(x.len(), size), memory, |planes, slots| {
            write_rows(slots, planes, |plane, slots| {
                let y = zeros(slots);
                self.plane(&x[plane * size..(plane + 1) * size], sizes.width, y);
                y
            })
        })
    }

    fn backward<T: Number>(&self, x: &[T], gradient: &[T], sizes: &Planes) -> Vec<T> {
        let (size, outputs) = (sizes.size(), sizes.outputs);
        let memory = UninitRows::new(x.len() / size, size);
        fill_parts(schedule(x.len(), size), memory, |planes, slots| {
            write_rows(slots, planes, |plane, slots| {
                let x = &x[plane * size..(plane + 1) * size];
                let g = &gradient[plane * outputs..(plane + 1) * outputs];
                let gradients = zeros(slots);
                self.plane_gradient(x, g, sizes.width, gradients);
                gradients
            })
        })
    }
}

/// How planes of `size` elements, `count` in all, are distributed over the threads.
fn schedule(count: usize, size: usize) -> Schedule {
    Schedule::per_thread(region::parts(count * EACH), count / size, 1)
}

/// Cost of an element in operations, from which the number of threads follows.
const EACH: usize = 8;

impl Planes {
    fn size(&self) -> usize {
        (self.height * self.width).max(1)
    }
}

/// Index and value of the largest element of a window.
fn largest<T: Number>(
    x: &[T],
    width: usize,
    rows: (usize, usize),
    columns: (usize, usize),
) -> (Option<usize>, T) {
    if rows.0 >= rows.1 || columns.0 >= columns.1 {
        return (None, T::neg_infinity());
    }
    let mut position = rows.0 * width + columns.0;
    let mut most = x[position];
    for row in rows.0..rows.1 {
        let (start, end) = (row * width + columns.0, row * width + columns.1);
        for (index, &value) in (start..end).zip(&x[start..end]) {
            // Selected without a branch, which would be mispredicted about twice in a window.
            let is_next = is_next(value, most);
            most = if is_next { value } else { most };
            position = if is_next { index } else { position };
        }
    }
    (Some(position), most)
}

impl CustomOp1 for PoolOp {
    fn name(&self) -> &'static str {
        "pool2d"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let planes = self.planes(layout)?;
        for_floats!(storage, T => {
            let y = self.forward(numbers::<T>(storage, layout)?, &planes);
            Ok((T::to_cpu_storage_owned(y), planes.shape))
        })
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let gradient = ready(gradient)?;
        Ok(Some(x.apply_op2_no_bwd(
            &gradient,
            &PoolGradient(self.clone()),
        )?))
    }
}

impl CustomOp2 for PoolGradient {
    fn name(&self) -> &'static str {
        "pool2d-gradient"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        gradient: &CpuStorage,
        gradient_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let planes = self.0.planes(x_layout)?;
        for_floats!(x, T => {
            let x = numbers::<T>(x, x_layout)?;
            let gradients = self.0.backward(x, numbers::<T>(gradient, gradient_layout)?, &planes);
            Ok((T::to_cpu_storage_owned(gradients), x_layout.shape().clone()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_side_by_side_are_those_of_the_slow_way() {
        for (height, width) in [(2, 2), (5, 7), (8, 16), (6, 27)] {
            let windows = |length| Windows::sliding(length, 2, 2, 0).expect("there is room");
            let pool = PoolOp {
                kind: PoolKind::Max,
                down: windows(height),
                across: windows(width),
            };
            assert!(pool.is_quads());
            // Few different values, so that many are equal.
            let x: Vec<f32> = (0..height * width)
                .map(|index| f32::from((index * 7 % 5) as u8))
                .collect();
            let outputs = pool.down.count() * pool.across.count();
            let g: Vec<f32> = (1..=outputs).map(|index| index as f32).collect();
            let (mut y, mut gradients) = (vec![0.0; outputs], vec![0.0; x.len()]);
            pool.plane(&x, width, &mut y);
            pool.plane_gradient(&x, &g, width, &mut gradients);
            let mut slow = vec![0.0; x.len()];
            pool.windows(|output, rows, columns, _| {
                let (position, most) = largest(&x, width, rows, columns);
                assert!((y[output] - most).abs() < f32::EPSILON);
                slow[position.expect("a position")] += g[output];
            });
            assert_eq!(gradients, slow);
        }
    }
}
