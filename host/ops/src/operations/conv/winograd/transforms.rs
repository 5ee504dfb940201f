//! The matrices of the algorithm, and the loop that applies them: each output vector is a sum of input vectors with
//! factors.
//!
//! A matrix is a type, so that the compiler knows its elements: zeros cost nothing, and all vectors of one transformation
//! stay in registers.

use super::Square;
use crate::kernels::has_tiles;
use crate::kernels::math::Number;

/// Elements that are computed at once.
const BLOCK: usize = 8;

/// The linear maps between outputs, inputs and kernels on one side, and squares on the other.
#[derive(Clone, Copy)]
pub(super) enum Map {
    /// Bᵀ: inputs of a square, from those of its images.
    Input,
    /// B: what a square's inputs are given of its gradient.
    InputBack,
    /// Aᵀ: outputs of a square.
    Output,
    /// A: the gradient of a square, from that of its outputs.
    OutputBack,
    /// G: a kernel's square, from its taps.
    Kernel,
    /// Gᵀ: the gradient of a kernel's taps.
    KernelBack,
}

/// A matrix of `OUT` rows and `IN` columns.
trait Matrix<const IN: usize, const OUT: usize> {
    const ROWS: [[f32; IN]; OUT];
}

const fn transposed<const ROWS: usize, const COLUMNS: usize>(
    matrix: [[f32; COLUMNS]; ROWS],
) -> [[f32; ROWS]; COLUMNS] {
    let mut result = [[0.0; ROWS]; COLUMNS];
    let mut row = 0;
    while row < ROWS {
        let mut column = 0;
        while column < COLUMNS {
            result[column][row] = matrix[row][column];
            column += 1;
        }
        row += 1;
    }
    result
}

macro_rules! matrices {
    ($($name:ident $back:ident: $rows:literal by $columns:literal = $matrix:expr;)*) => {
        $(
            struct $name;
            struct $back;

            impl Matrix<$columns, $rows> for $name {
                const ROWS: [[f32; $columns]; $rows] = $matrix;
            }

            impl Matrix<$rows, $columns> for $back {
                const ROWS: [[f32; $rows]; $columns] = transposed($matrix);
            }
        )*
    };
}

/// The points of F(4 × 4, 3 × 3) are 0, ±P, ±2 P and infinity.
///
/// With ¾ errors are less than half of those with 1; sums of products with it are exact for small integers.
const P: f32 = 0.75;
/// P² and P⁴.
const P2: f32 = P * P;
const P4: f32 = P2 * P2;

matrices! {
    Input2 InputBack2: 4 by 4 = [
        [1.0, 0.0, -1.0, 0.0],
        [0.0, 1.0, 1.0, 0.0],
        [0.0, -1.0, 1.0, 0.0],
        [0.0, 1.0, 0.0, -1.0],
    ];
    Output2 OutputBack2: 2 by 4 = [[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, -1.0]];
    Kernel2 KernelBack2: 4 by 3 = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0]];
    // Each row has the coefficients of the product of x − q over the other points q.
    Input4 InputBack4: 6 by 6 = [
        [4.0 * P4, 0.0, -5.0 * P2, 0.0, 1.0, 0.0],
        [0.0, -4.0 * P2 * P, -4.0 * P2, P, 1.0, 0.0],
        [0.0, 4.0 * P2 * P, -4.0 * P2, -P, 1.0, 0.0],
        [0.0, -2.0 * P2 * P, -P2, 2.0 * P, 1.0, 0.0],
        [0.0, 2.0 * P2 * P, -P2, -2.0 * P, 1.0, 0.0],
        [0.0, 4.0 * P4, 0.0, -5.0 * P2, 0.0, 1.0],
    ];
    // The powers of the points.
    Output4 OutputBack4: 4 by 6 = [
        [1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        [0.0, P, -P, 2.0 * P, -2.0 * P, 0.0],
        [0.0, P2, P2, 4.0 * P2, 4.0 * P2, 0.0],
        [0.0, P2 * P, -P2 * P, 8.0 * P2 * P, -8.0 * P2 * P, 1.0],
    ];
    // The powers of each point p, divided by the product of p − q over the other points q.
    Kernel4 KernelBack4: 6 by 3 = [
        [1.0 / (4.0 * P4), 0.0, 0.0],
        [-1.0 / (6.0 * P4), -1.0 / (6.0 * P2 * P), -1.0 / (6.0 * P2)],
        [-1.0 / (6.0 * P4), 1.0 / (6.0 * P2 * P), -1.0 / (6.0 * P2)],
        [1.0 / (24.0 * P4), 1.0 / (12.0 * P2 * P), 1.0 / (6.0 * P2)],
        [1.0 / (24.0 * P4), -1.0 / (12.0 * P2 * P), 1.0 / (6.0 * P2)],
        [0.0, 0.0, 1.0],
    ];
}

/// Where vectors begin: distance from one vector of a transformation to the next, and from one row to the next.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    pub(super) vector: usize,
    pub(super) row: usize,
}

/// Rows of vectors that are transformed alike, each vector of `width` elements, a multiple of [`BLOCK`].
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) rows: usize,
    pub(super) width: usize,
    pub(super) from: Steps,
    pub(super) to: Steps,
}

impl Shape {
    /// A single row of vectors at these distances.
    pub(super) fn line(width: usize, from: usize, to: usize) -> Shape {
        let steps = |vector| Steps { vector, row: 0 };
        Shape {
            rows: 1,
            width,
            from: steps(from),
            to: steps(to),
        }
    }

    /// Whether `count` vectors of each row lie in memory of `length` elements.
    fn fits(&self, steps: Steps, count: usize, length: usize) -> bool {
        self.rows == 0
            || (self.rows - 1) * steps.row + (count - 1) * steps.vector + self.width <= length
    }
}

/// Applies a map to vectors, and replaces those of the result or, with `adds`, adds to them.
///
/// With `adds` vectors of the result may overlap those of the next row.
pub(super) fn transform(
    (square, map): (Square, Map),
    from: &[f32],
    to: &mut [f32],
    shape: Shape,
    adds: bool,
) {
    match (square, map) {
        (Square::Two, Map::Input) => run::<Input2, 4, 4>(from, to, shape, adds),
        (Square::Two, Map::InputBack) => run::<InputBack2, 4, 4>(from, to, shape, adds),
        (Square::Two, Map::Output) => run::<Output2, 4, 2>(from, to, shape, adds),
        (Square::Two, Map::OutputBack) => run::<OutputBack2, 2, 4>(from, to, shape, adds),
        (Square::Two, Map::Kernel) => run::<Kernel2, 3, 4>(from, to, shape, adds),
        (Square::Two, Map::KernelBack) => run::<KernelBack2, 4, 3>(from, to, shape, adds),
        (Square::Four, Map::Input) => run::<Input4, 6, 6>(from, to, shape, adds),
        (Square::Four, Map::InputBack) => run::<InputBack4, 6, 6>(from, to, shape, adds),
        (Square::Four, Map::Output) => run::<Output4, 6, 4>(from, to, shape, adds),
        (Square::Four, Map::OutputBack) => run::<OutputBack4, 4, 6>(from, to, shape, adds),
        (Square::Four, Map::Kernel) => run::<Kernel4, 3, 6>(from, to, shape, adds),
        (Square::Four, Map::KernelBack) => run::<KernelBack4, 6, 3>(from, to, shape, adds),
    }
}

/// Runs [`rows`], compiled for AVX2 for all processors that have tiles.
///
/// For AVX-512 the compiler would gather the same lane of many blocks into a register, which takes twice as long.
fn run<M: Matrix<IN, OUT>, const IN: usize, const OUT: usize>(
    from: &[f32],
    to: &mut [f32],
    shape: Shape,
    adds: bool,
) {
    let fits = shape.width.is_multiple_of(BLOCK)
        && shape.fits(shape.from, IN, from.len())
        && shape.fits(shape.to, OUT, to.len());
    assert!(fits && has_tiles(), "a transformation doesn't fit");
    #[cfg(target_arch = "x86_64")]
    {
        /// # Safety
        ///
        /// That of [`rows`], on a processor with AVX2 and FMA.
        #[target_feature(enable = "avx2,fma")]
        #[expect(unsafe_code, reason = "vectors are read and written by pointers")]
        unsafe fn avx2<M: Matrix<IN, OUT>, const IN: usize, const OUT: usize>(
            from: &[f32],
            to: &mut [f32],
            shape: Shape,
            adds: bool,
        ) {
            // SAFETY: the caller keeps this function's contract, which includes that of `rows`.
            unsafe {
                if adds {
                    rows::<M, IN, OUT, true, true>(from, to, shape);
                } else {
                    rows::<M, IN, OUT, true, false>(from, to, shape);
                }
            }
        }

        // SAFETY: `has_tiles` holds only where the processor has AVX2 and FMA; the assertion has checked that all vectors
        // lie in their memory, in whole blocks.
        #[expect(unsafe_code, reason = "vectors are read and written by pointers")]
        unsafe {
            avx2::<M, IN, OUT>(from, to, shape, adds);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        // SAFETY: the assertion has checked that all vectors lie in their memory, in whole blocks.
        #[expect(unsafe_code, reason = "vectors are read and written by pointers")]
        unsafe {
            if adds {
                rows::<M, IN, OUT, false, true>(from, to, shape);
            } else {
                rows::<M, IN, OUT, false, false>(from, to, shape);
            }
        }
    }
}

/// # Safety
///
/// All vectors lie in their memory, and their width is a multiple of [`BLOCK`].
#[inline(always)]
#[expect(unsafe_code, reason = "vectors are read and written by pointers")]
unsafe fn rows<
    M: Matrix<IN, OUT>,
    const IN: usize,
    const OUT: usize,
    const FUSED: bool,
    const ADDS: bool,
>(
    from: &[f32],
    to: &mut [f32],
    shape: Shape,
) {
    for row in 0..shape.rows {
        for first in (0..shape.width).step_by(BLOCK) {
            // SAFETY: by this function's contract the block lies inside the row's vectors, and these in their memory.
            unsafe {
                let from = from.as_ptr().add(row * shape.from.row + first);
                let blocks: [[f32; BLOCK]; IN] = std::array::from_fn(|index| {
                    from.add(index * shape.from.vector)
                        .cast::<[f32; BLOCK]>()
                        .read()
                });
                let to = to.as_mut_ptr().add(row * shape.to.row + first);
                for (index, factors) in M::ROWS.iter().enumerate() {
                    let to = to.add(index * shape.to.vector).cast::<[f32; BLOCK]>();
                    let mut sums = if ADDS { to.read() } else { [0.0; BLOCK] };
                    for (block, &factor) in blocks.iter().zip(factors) {
                        if factor != 0.0 {
                            for (sum, x) in sums.iter_mut().zip(block) {
                                *sum = x.times_plus::<FUSED>(factor, *sum);
                            }
                        }
                    }
                    to.write(sums);
                }
            }
        }
    }
}
