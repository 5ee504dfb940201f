//! 2 × 2 max pooling of several squares in parallel: the pooling that most networks have.

use std::array::from_fn;

use crate::kernels::math::Number;
use crate::vectorised;

/// Elements of neighbouring squares: upper left, upper right, lower left, lower right.
struct Quads<T, const LANES: usize>([[T; LANES]; 4]);

impl<T: Number, const LANES: usize> Quads<T, LANES> {
    /// Loads the squares of two lines from a column on; the lines must be long enough.
    #[inline(always)]
    fn load(upper: &[T], lower: &[T], column: usize) -> Self {
        let upper = &upper[2 * column..2 * (column + LANES)];
        let lower = &lower[2 * column..2 * (column + LANES)];
        Quads([
            from_fn(|lane| upper[2 * lane]),
            from_fn(|lane| upper[2 * lane + 1]),
            from_fn(|lane| lower[2 * lane]),
            from_fn(|lane| lower[2 * lane + 1]),
        ])
    }

    /// The largest elements, and which of the four they are; of equal ones the first, as in `largest` of `pool`.
    #[inline(always)]
    fn largest(&self) -> ([T; LANES], [u8; LANES]) {
        let Quads([a, b, c, d]) = self;
        let (mut most, mut marks) = ([T::ZERO; LANES], [T::ZERO; LANES]);
        // Positions as wide as the elements are selected along with them; bytes would be selected one by one.
        let [first, second, third, fourth] = [0, 1, 2, 3].map(T::mark);
        for lane in 0..LANES {
            let is_right = is_next(b[lane], a[lane]);
            let upper = if is_right { b[lane] } else { a[lane] };
            let above = if is_right { second } else { first };
            let is_right = is_next(d[lane], c[lane]);
            let lower = if is_right { d[lane] } else { c[lane] };
            let below = if is_right { fourth } else { third };
            let is_lower = is_next(lower, upper);
            most[lane] = if is_lower { lower } else { upper };
            marks[lane] = if is_lower { below } else { above };
        }
        (most, marks.map(T::marked))
    }
}

/// Writes each square's element of `g` to its position, and zeros to the other three.
#[inline(always)]
fn spread<T: Number, const LANES: usize>(
    positions: &[u8; LANES],
    g: &[T],
    upper: &mut [T],
    lower: &mut [T],
    column: usize,
) {
    let upper = &mut upper[2 * column..2 * (column + LANES)];
    let lower = &mut lower[2 * column..2 * (column + LANES)];
    // By bit masks: comparisons with a position are not vectorised.
    let is_right: [u8; LANES] = from_fn(|lane| positions[lane] & 1);
    let is_lower: [u8; LANES] = from_fn(|lane| positions[lane] >> 1);
    let above: [T; LANES] = from_fn(|lane| g[lane].kept(is_lower[lane] ^ 1));
    let below: [T; LANES] = from_fn(|lane| g[lane].kept(is_lower[lane]));
    for lane in 0..LANES {
        upper[2 * lane] = above[lane].kept(is_right[lane] ^ 1);
        upper[2 * lane + 1] = above[lane].kept(is_right[lane]);
    }
    for lane in 0..LANES {
        lower[2 * lane] = below[lane].kept(is_right[lane] ^ 1);
        lower[2 * lane + 1] = below[lane].kept(is_right[lane]);
    }
}

/// Whether a value replaces the largest before it: it is larger, or the first NaN.
///
/// Without a branch, so that loops over squares are vectorised.
#[inline(always)]
#[expect(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "true for a NaN, and on purpose"
)]
pub(crate) fn is_next<T: Number>(value: T, before: T) -> bool {
    !(value <= before) & !before.is_nan()
}

/// Runs a block of code for all columns, `$lanes` of them at a time, from `$column` on.
///
/// Lines of images that are pooled are short, so it matters to have widths of 8, 4 and 1.
macro_rules! side_by_side {
    ($columns:expr, |$column:ident, $lanes:ident| $body:block) => {{
        let columns = $columns;
        let mut $column = 0;
        while $column + 8 <= columns {
            const $lanes: usize = 8;
            $body
            $column += 8;
        }
        while $column + 4 <= columns {
            const $lanes: usize = 4;
            $body
            $column += 4;
        }
        while $column < columns {
            const $lanes: usize = 1;
            $body
            $column += 1;
        }
    }};
}

vectorised! {
    /// The largest elements of the squares of a plane.
    pub(super) fn quads<T: Number>(x: &[T], width: usize, columns: usize, y: &mut [T]) {
        for (lines, y) in x.chunks_exact(2 * width).zip(y.chunks_exact_mut(columns.max(1))) {
            let (upper, lower) = lines.split_at(width);
            side_by_side!(columns, |column, LANES| {
                let (most, _) = Quads::<T, LANES>::load(upper, lower, column).largest();
                y[column..][..LANES].copy_from_slice(&most);
            });
        }
    }
}

vectorised! {
    /// The largest elements of the squares, and their positions: 0 to 3, row by row of a square.
    pub(in crate) fn quads_with_positions<T: Number>(
        x: &[T],
        width: usize,
        columns: usize,
        y: &mut [T],
        positions: &mut [u8],
    ) {
        let lines = x.chunks_exact(2 * width);
        let targets = y.chunks_exact_mut(columns.max(1)).zip(positions.chunks_exact_mut(columns.max(1)));
        for (lines, (y, positions)) in lines.zip(targets) {
            let (upper, lower) = lines.split_at(width);
            side_by_side!(columns, |column, LANES| {
                let (most, largest) = Quads::<T, LANES>::load(upper, lower, column).largest();
                y[column..][..LANES].copy_from_slice(&most);
                positions[column..][..LANES].copy_from_slice(&largest);
            });
        }
    }
}

vectorised! {
    /// The gradient of [`quads`]; a last row or column that is in no square stays unchanged.
    pub(super) fn quad_gradient<T: Number>(x: &[T], g: &[T], width: usize, columns: usize, gradients: &mut [T]) {
        let lines = x.chunks_exact(2 * width).zip(gradients.chunks_exact_mut(2 * width));
        for ((lines, gradients), g) in lines.zip(g.chunks_exact(columns.max(1))) {
            let (upper, lower) = lines.split_at(width);
            let (up, low) = gradients.split_at_mut(width);
            side_by_side!(columns, |column, LANES| {
                let (_, positions) = Quads::<T, LANES>::load(upper, lower, column).largest();
                spread(&positions, &g[column..][..LANES], up, low, column);
            });
        }
    }
}

vectorised! {
    /// The gradient of [`quads_with_positions`], from the positions it found.
    pub(in crate) fn spread_quads<T: Number>(
        positions: &[u8],
        g: &[T],
        width: usize,
        columns: usize,
        gradients: &mut [T],
    ) {
        let lines = gradients.chunks_exact_mut(2 * width).zip(positions.chunks_exact(columns.max(1)));
        for ((gradients, positions), g) in lines.zip(g.chunks_exact(columns.max(1))) {
            let (up, low) = gradients.split_at_mut(width);
            side_by_side!(columns, |column, LANES| {
                let mut here = [0; LANES];
                here.copy_from_slice(&positions[column..][..LANES]);
                spread(&here, &g[column..][..LANES], up, low, column);
            });
        }
    }
}
