//! The largest numbers of squares of 2 × 2, several side by side: the pooling that most networks have.

use crate::kernels::math::Number;
use crate::kernels::vectorised;

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

/// The largest numbers of squares and which they are, as `largest` of the pool has them.
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
    pub(super) fn quads<T: Number>(x: &[T], width: usize, columns: usize, y: &mut [T]) {
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
    pub(super) fn quad_slopes<T: Number>(x: &[T], g: &[T], width: usize, columns: usize, slopes: &mut [T]) {
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
