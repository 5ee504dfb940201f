//! The matrices of the algorithm, and the loop that applies them: sums of a few vectors with factors.

use crate::kernels::has_tiles;
use crate::kernels::math::Number;

/// Elements that are computed at once; the numbers of channels are multiples of it.
pub(super) const LANES: usize = 16;

/// A row of a transformation's matrix: the indices of its elements other than 0, and these.
pub(super) type Terms = &'static [(usize, f32)];

/// Bᵀ: inputs of a square, from those of its images.
pub(super) const INPUT: [Terms; 4] = [
    &[(0, 1.0), (2, -1.0)],
    &[(1, 1.0), (2, 1.0)],
    &[(2, 1.0), (1, -1.0)],
    &[(1, 1.0), (3, -1.0)],
];

/// B: what a square's inputs are given of its gradient.
pub(super) const INPUT_BACK: [Terms; 4] = [
    &[(0, 1.0)],
    &[(1, 1.0), (2, -1.0), (3, 1.0)],
    &[(1, 1.0), (0, -1.0), (2, 1.0)],
    &[(3, -1.0)],
];

/// Aᵀ: outputs of a square.
pub(super) const OUTPUT: [Terms; 2] = [
    &[(0, 1.0), (1, 1.0), (2, 1.0)],
    &[(1, 1.0), (2, -1.0), (3, -1.0)],
];

/// A: the gradient of a square, from that of its outputs.
pub(super) const OUTPUT_BACK: [Terms; 4] = [
    &[(0, 1.0)],
    &[(0, 1.0), (1, 1.0)],
    &[(0, 1.0), (1, -1.0)],
    &[(1, -1.0)],
];

/// G: a kernel's square, from its taps.
pub(super) const KERNEL: [Terms; 4] = [
    &[(0, 1.0)],
    &[(0, 0.5), (1, 0.5), (2, 0.5)],
    &[(0, 0.5), (1, -0.5), (2, 0.5)],
    &[(2, 1.0)],
];

/// Gᵀ: the gradient of a kernel's taps.
pub(super) const KERNEL_BACK: [Terms; 3] = [
    &[(0, 1.0), (1, 0.5), (2, 0.5)],
    &[(1, 0.5), (2, -0.5)],
    &[(1, 0.5), (2, 0.5), (3, 1.0)],
];

/// Rows of a number of elements, a multiple of [`LANES`].
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) rows: usize,
    pub(super) width: usize,
    /// Strides from row to row of the result and of the sources.
    pub(super) steps: (usize, usize),
}

impl Shape {
    /// A single row.
    pub(super) fn line(width: usize) -> Shape {
        Shape {
            rows: 1,
            width,
            steps: (0, 0),
        }
    }
}

/// to = Σ factor · source over the terms, added to what is there where `adds`; `source` gives that of an index.
pub(super) fn combine<'a>(
    to: &mut [f32],
    terms: Terms,
    source: impl Fn(usize) -> &'a [f32],
    shape: Shape,
    adds: bool,
) {
    let of = |index: usize| (source(terms[index].0), terms[index].1);
    match terms.len() {
        1 => combine_some(to, [of(0)], shape, adds),
        2 => combine_some(to, [of(0), of(1)], shape, adds),
        3 => combine_some(to, [of(0), of(1), of(2)], shape, adds),
        count => panic!("no loop for {count} terms"),
    }
}

/// Runs [`combine_rows`], compiled for AVX2 for all processors that have tiles.
///
/// For AVX-512 the compiler would gather the same lane of many blocks into a register, which takes twice as long.
fn combine_some<const N: usize>(
    to: &mut [f32],
    terms: [(&[f32], f32); N],
    shape: Shape,
    adds: bool,
) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn avx2<const N: usize>(
            to: &mut [f32],
            terms: [(&[f32], f32); N],
            shape: Shape,
            adds: bool,
        ) {
            combine_rows::<true, N>(to, terms, shape, adds);
        }

        assert!(has_tiles(), "a transformation on a processor without AVX2");
        // SAFETY: `has_tiles` holds only where the processor has AVX2 and FMA.
        #[expect(unsafe_code, reason = "the only way in")]
        unsafe {
            avx2(to, terms, shape, adds);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = has_tiles();
        combine_rows::<false, N>(to, terms, shape, adds);
    }
}

#[inline(always)]
fn combine_rows<const FUSED: bool, const N: usize>(
    to: &mut [f32],
    terms: [(&[f32], f32); N],
    shape: Shape,
    adds: bool,
) {
    let Shape { rows, width, steps } = shape;
    for row in 0..rows {
        let (to, _) = to[row * steps.0..][..width].as_chunks_mut::<LANES>();
        let from = terms.map(|(from, _)| from[row * steps.1..][..width].as_chunks::<LANES>().0);
        for (index, to) in to.iter_mut().enumerate() {
            let blocks = from.map(|from| from[index]);
            for (lane, to) in to.iter_mut().enumerate() {
                let mut sum = if adds { *to } else { 0.0 };
                for (block, (_, factor)) in blocks.iter().zip(terms) {
                    sum = block[lane].times_plus::<FUSED>(factor, sum);
                }
                *to = sum;
            }
        }
    }
}

/// Elements of a kernel's square that are transformed at once.
const AT_ONCE: usize = 512;

/// G k Gᵀ of kernels whose taps are `each` elements each, to 16 positions of as many.
pub(super) fn transform_kernel(taps: [&[f32]; 9], positions: &mut [f32], each: usize) {
    let mut half = vec![0.0; 12 * AT_ONCE];
    for first in (0..each).step_by(AT_ONCE) {
        let count = AT_ONCE.min(each - first);
        let shape = Shape::line(count);
        for (i, terms) in KERNEL.into_iter().enumerate() {
            for j in 0..3 {
                let to = &mut half[(i * 3 + j) * AT_ONCE..];
                combine(to, terms, |tap| &taps[tap * 3 + j][first..], shape, false);
            }
        }
        for i in 0..4 {
            for (j, terms) in KERNEL.into_iter().enumerate() {
                let to = &mut positions[(i * 4 + j) * each + first..];
                let source = |tap: usize| &half[(i * 3 + tap) * AT_ONCE..];
                combine(to, terms, source, shape, false);
            }
        }
    }
}

/// Gᵀ u G of 16 positions of `each` elements, to nine taps of as many.
pub(super) fn kernel_gradient(positions: &[f32], taps: &mut [f32], each: usize) {
    let mut half = vec![0.0; 12 * AT_ONCE];
    for first in (0..each).step_by(AT_ONCE) {
        let count = AT_ONCE.min(each - first);
        let shape = Shape::line(count);
        for (i, terms) in KERNEL_BACK.into_iter().enumerate() {
            for j in 0..4 {
                let to = &mut half[(i * 4 + j) * AT_ONCE..];
                let source = |row: usize| &positions[(row * 4 + j) * each + first..];
                combine(to, terms, source, shape, false);
            }
        }
        for i in 0..3 {
            for (j, terms) in KERNEL_BACK.into_iter().enumerate() {
                let to = &mut taps[(i * 3 + j) * each + first..];
                let source = |column: usize| &half[(i * 4 + column) * AT_ONCE..];
                combine(to, terms, source, shape, false);
            }
        }
    }
}
