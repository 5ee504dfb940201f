//! Pooling over the last two dimensions: largest and mean, of any windows.
//!
//! candle's `max_pool2d` has a gradient that is too small by the size of its windows.

mod quads;

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor, WithDType, bail,
};

use super::tape::apply1;
use crate::kernels::region::{self, Shared};
use crate::kernels::{Fresh, zeros};
use crate::storage::{Number, for_floats, number, numbers, ready};
pub(super) use quads::{is_next, quads_with_places, spread_quads};
use quads::{quad_slopes, quads};

/// What a window gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// Its largest number; the gradient goes to the first of equal ones. A NaN wins.
    Max,
    /// The mean of its numbers.
    Mean,
}

/// The windows along one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Where each begins and ends inside the input.
    ranges: Vec<(usize, usize)>,
    /// How many places each has together with those in the padding, which count as zeros in a mean.
    places: Vec<usize>,
}

impl Windows {
    /// Windows of `size` places, `stride` apart, over `length` places with `padding` on both sides:
    /// ⌊(length + 2 · padding − size) / stride⌋ + 1 of them, as in PyTorch. None where there is no
    /// room for one.
    pub fn sliding(length: usize, size: usize, stride: usize, padding: usize) -> Option<Windows> {
        let room = (length + 2 * padding).checked_sub(size)?;
        let count = room.checked_div(stride)? + 1;
        let ranges = (0..count).map(|index| {
            let start = index * stride;
            let end = start + size;
            let inside = |place: usize| place.saturating_sub(padding).min(length);
            (inside(start), inside(end))
        });
        Some(Windows {
            ranges: ranges.collect(),
            places: vec![size; count],
        })
    }

    /// `count` windows that cover `length` places, as in PyTorch's adaptive pooling: the i-th from
    /// ⌊i · length / count⌋ to ⌈(i + 1) · length / count⌉.
    pub fn adaptive(length: usize, count: usize) -> Windows {
        let range = |index: usize| {
            let end = ((index + 1) * length).div_ceil(count.max(1));
            (index * length / count.max(1), end)
        };
        let ranges: Vec<_> = (0..count).map(range).collect();
        Windows {
            places: ranges.iter().map(|(start, end)| end - start).collect(),
            ranges,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }
}

/// Pools (…, height, width) to (…, windows along the height, windows along the width).
pub fn pool2d(x: &Tensor, kind: PoolKind, down: Windows, across: Windows) -> Result<Tensor> {
    apply1(&ready(x)?, Pool { kind, down, across })
}

#[derive(Clone)]
struct Pool {
    kind: PoolKind,
    down: Windows,
    across: Windows,
}

struct PoolGradient(Pool);

/// The sizes that a pass over the planes needs.
struct Planes {
    height: usize,
    width: usize,
    outputs: usize,
    shape: Shape,
}

impl Pool {
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

    /// Calls `at(output, window's rows, window's columns, places)` for each window of a plane.
    fn windows(&self, mut at: impl FnMut(usize, (usize, usize), (usize, usize), usize)) {
        let mut output = 0;
        for (rows, high) in self.down.ranges.iter().zip(&self.down.places) {
            for (columns, wide) in self.across.ranges.iter().zip(&self.across.places) {
                at(output, *rows, *columns, high * wide);
                output += 1;
            }
        }
    }

    /// Whether windows are those of a kernel of 2 × 2 that goes in steps of 2.
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
        self.windows(|output, rows, columns, places| {
            y[output] = match self.kind {
                PoolKind::Max => largest(x, width, rows, columns).1,
                PoolKind::Mean => {
                    let mut sum = T::ZERO;
                    for row in rows.0..rows.1 {
                        let start = row * width;
                        let line = &x[start + columns.0..start + columns.1];
                        sum = line.iter().fold(sum, |sum, &x| sum + x);
                    }
                    sum / number(places as f64)
                }
            };
        });
    }

    /// The gradient of one plane's input, added to `slopes`.
    fn plane_slopes<T: Number>(&self, x: &[T], g: &[T], width: usize, slopes: &mut [T]) {
        if self.is_quads() {
            return quad_slopes(x, g, width, self.across.count(), slopes);
        }
        self.windows(|output, rows, columns, places| match self.kind {
            PoolKind::Max => {
                if let (Some(place), _) = largest(x, width, rows, columns) {
                    slopes[place] += g[output];
                }
            }
            PoolKind::Mean => {
                let share = g[output] / number(places as f64);
                for row in rows.0..rows.1 {
                    let start = row * width;
                    for slope in &mut slopes[start + columns.0..start + columns.1] {
                        *slope += share;
                    }
                }
            }
        });
    }

    fn forward<T: Number>(&self, x: &[T], sizes: &Planes) -> Vec<T> {
        let (size, outputs) = (sizes.size(), sizes.outputs);
        let count = x.len() / size;
        let mut y = Fresh::new(count * outputs);
        let places = Shared::new(y.places());
        let parts = region::parts(x.len() * EACH);
        region::run(parts, |part| {
            for plane in region::range(count, 1, part, parts) {
                // SAFETY: each plane is in one part.
                #[expect(unsafe_code, reason = "each plane has its own outputs")]
                let y = zeros(unsafe { places.part(plane * outputs..(plane + 1) * outputs) });
                self.plane(&x[plane * size..(plane + 1) * size], sizes.width, y);
            }
        });
        // SAFETY: every plane was written.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            y.written()
        }
    }

    fn backward<T: Number>(&self, x: &[T], gradient: &[T], sizes: &Planes) -> Vec<T> {
        let (size, outputs) = (sizes.size(), sizes.outputs);
        let mut slopes = Fresh::new(x.len());
        let places = Shared::new(slopes.places());
        let parts = region::parts(x.len() * EACH);
        region::run(parts, |part| {
            for plane in region::range(x.len() / size, 1, part, parts) {
                let inputs = plane * size..(plane + 1) * size;
                let g = &gradient[plane * outputs..(plane + 1) * outputs];
                // SAFETY: each plane is in one part.
                #[expect(unsafe_code, reason = "each plane has its own slopes")]
                let slopes = zeros(unsafe { places.part(inputs.clone()) });
                self.plane_slopes(&x[inputs], g, sizes.width, slopes);
            }
        });
        // SAFETY: every plane was written.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            slopes.written()
        }
    }
}

/// Operations for each number, of which threads are worth a share.
const EACH: usize = 8;

impl Planes {
    fn size(&self) -> usize {
        (self.height * self.width).max(1)
    }
}

/// Where the largest number of a window is, and what it is.
fn largest<T: Number>(
    x: &[T],
    width: usize,
    rows: (usize, usize),
    columns: (usize, usize),
) -> (Option<usize>, T) {
    let (mut place, mut most) = (None, T::neg_infinity());
    for row in rows.0..rows.1 {
        for column in columns.0..columns.1 {
            let index = row * width + column;
            let value = x[index];
            // A NaN is kept: neither is it larger, nor is anything larger than it.
            if place.is_none() || value > most || value.is_nan() && !most.is_nan() {
                (place, most) = (Some(index), value);
            }
        }
    }
    (place, most)
}

impl CustomOp1 for Pool {
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
            let slopes = self.0.backward(x, numbers::<T>(gradient, gradient_layout)?, &planes);
            Ok((T::to_cpu_storage_owned(slopes), x_layout.shape().clone()))
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
            let pool = Pool {
                kind: PoolKind::Max,
                down: windows(height),
                across: windows(width),
            };
            assert!(pool.is_quads());
            // Few different numbers, so that many are equal.
            let x: Vec<f32> = (0..height * width)
                .map(|index| f32::from((index * 7 % 5) as u8))
                .collect();
            let outputs = pool.down.count() * pool.across.count();
            let g: Vec<f32> = (1..=outputs).map(|index| index as f32).collect();
            let (mut y, mut slopes) = (vec![0.0; outputs], vec![0.0; x.len()]);
            pool.plane(&x, width, &mut y);
            pool.plane_slopes(&x, &g, width, &mut slopes);
            let mut slow = vec![0.0; x.len()];
            pool.windows(|output, rows, columns, _| {
                let (place, most) = largest(&x, width, rows, columns);
                assert!((y[output] - most).abs() < f32::EPSILON);
                slow[place.expect("a place")] += g[output];
            });
            assert_eq!(slopes, slow);
        }
    }
}
