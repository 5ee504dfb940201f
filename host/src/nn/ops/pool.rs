//! Pooling over the last two dimensions: largest and mean, of any windows.
//!
//! candle's `max_pool2d` has a gradient that is too small by the size of its windows.

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor, WithDType, bail,
};

use super::{Number, for_floats, number, numbers, ready};
use crate::kernels::region::{self, Shared};
use crate::kernels::{Fresh, vectorised, zeros};

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
    ready(x)?.apply_op1(Pool { kind, down, across })
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

/// How many squares are done side by side: few, since the lines of images that are pooled are short.
const LANES: usize = 4;

/// Squares side by side: upper left, upper right, lower left, lower right.
type Quads<T> = [[T; LANES]; 4];

/// The squares of two lines from column `start` on.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "lanes of several arrays")]
fn load<T: Number>(upper: &[T], lower: &[T], start: usize) -> Quads<T> {
    let mut quads = [[T::ZERO; LANES]; 4];
    let pair = |line: &'_ [T], lane: usize| (line[2 * lane], line[2 * lane + 1]);
    let (upper, lower) = (
        &upper[start..start + 2 * LANES],
        &lower[start..start + 2 * LANES],
    );
    for lane in 0..LANES {
        (quads[0][lane], quads[1][lane]) = pair(upper, lane);
        (quads[2][lane], quads[3][lane]) = pair(lower, lane);
    }
    quads
}

/// The largest numbers of squares and which they are, as [`largest`] has them.
#[inline(always)]
fn largest_of_quads<T: Number>(quads: &Quads<T>) -> ([T; LANES], [u32; LANES]) {
    let mut most = quads[0];
    let mut places = [0; LANES];
    for (index, values) in (1..).zip(&quads[1..]) {
        for lane in 0..LANES {
            let (value, before) = (values[lane], most[lane]);
            let is_larger = is_next(value, before);
            most[lane] = if is_larger { value } else { before };
            places[lane] = if is_larger { index } else { places[lane] };
        }
    }
    (most, places)
}

/// One square, as [`largest_of_quads`] does many.
#[inline(always)]
fn largest_of_quad<T: Number>(upper: &[T], lower: &[T], column: usize) -> (T, u32) {
    let quad = [
        upper[2 * column],
        upper[2 * column + 1],
        lower[2 * column],
        lower[2 * column + 1],
    ];
    let (mut most, mut place) = (quad[0], 0);
    for (index, value) in (1..).zip(quad.into_iter().skip(1)) {
        let is_larger = is_next(value, most);
        most = if is_larger { value } else { most };
        place = if is_larger { index } else { place };
    }
    (most, place)
}

/// Whether a number takes the place of the largest before it: it is larger, or the first NaN. Without a
/// branch, so that squares go side by side.
#[inline(always)]
#[expect(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "true for a NaN, and on purpose"
)]
fn is_next<T: Number>(value: T, before: T) -> bool {
    !(value <= before) & !before.is_nan()
}

vectorised! {
    /// The largest numbers of the squares of a plane.
    fn quads<T: Number>(x: &[T], width: usize, columns: usize, y: &mut [T]) {
        for (lines, y) in x.chunks_exact(2 * width).zip(y.chunks_exact_mut(columns.max(1))) {
            let (upper, lower) = lines.split_at(width);
            let whole = columns / LANES * LANES;
            for (chunk, y) in y.chunks_exact_mut(LANES).enumerate() {
                let squares = load(upper, lower, 2 * LANES * chunk);
                y.copy_from_slice(&largest_of_quads(&squares).0);
            }
            for (column, y) in y.iter_mut().enumerate().skip(whole) {
                *y = largest_of_quad(upper, lower, column).0;
            }
        }
    }
}

vectorised! {
    /// The gradient of [`quads`].
    fn quad_slopes<T: Number>(x: &[T], g: &[T], width: usize, columns: usize, slopes: &mut [T]) {
        let lines = x.chunks_exact(2 * width).zip(slopes.chunks_exact_mut(2 * width));
        for ((lines, slopes), g) in lines.zip(g.chunks_exact(columns.max(1))) {
            let (upper, lower) = lines.split_at(width);
            let (up, low) = slopes.split_at_mut(width);
            let whole = columns / LANES * LANES;
            for (chunk, g) in g.chunks_exact(LANES).enumerate() {
                let start = 2 * LANES * chunk;
                let (_, places) = largest_of_quads(&load(upper, lower, start));
                let mut shares = [[T::ZERO; 2 * LANES]; 2];
                for (line, first) in shares.iter_mut().zip([0, 2]) {
                    for (index, share) in line.iter_mut().enumerate() {
                        let (lane, right) = (index / 2, (index % 2) as u32);
                        let is_here = places[lane] == first + right;
                        *share = if is_here { g[lane] } else { T::ZERO };
                    }
                }
                up[start..start + 2 * LANES].copy_from_slice(&shares[0]);
                low[start..start + 2 * LANES].copy_from_slice(&shares[1]);
            }
            for column in whole..columns {
                let (_, place) = largest_of_quad(upper, lower, column);
                let share = |index: u32| if place == index { g[column] } else { T::ZERO };
                (up[2 * column], up[2 * column + 1]) = (share(0), share(1));
                (low[2 * column], low[2 * column + 1]) = (share(2), share(3));
            }
        }
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
