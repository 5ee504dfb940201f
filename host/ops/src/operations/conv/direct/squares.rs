//! Pooling of outputs with channels last, forward and backward.

use crate::operations::pool::is_next;
use crate::vectorised;

/// Number of 2 × 2 squares across lines of `line` elements.
fn squares_of(line: usize, outputs: usize) -> usize {
    line / (2 * outputs)
}

vectorised! {
    /// The largest elements of 2 × 2 squares, channels last, and which of the four they are.
    ///
    /// Of equal ones it is the first, and of NaNs.
    pub(in crate::operations::conv) fn largest(whole: &[f32], line: usize, outputs: usize, most: &mut [f32], squares: &mut [u8]) {
        let across = squares_of(line, outputs);
        let targets = most
            .chunks_exact_mut((across * outputs).max(1))
            .zip(squares.chunks_exact_mut((across * outputs).max(1)));
        for (lines, (most, squares)) in whole.chunks_exact(2 * line).zip(targets) {
            let (upper, lower) = lines.split_at(line);
            let pairs = upper.chunks_exact(2 * outputs).zip(lower.chunks_exact(2 * outputs));
            let targets = most.chunks_exact_mut(outputs).zip(squares.chunks_exact_mut(outputs));
            for ((upper, lower), (most, squares)) in pairs.zip(targets) {
                let ((a, b), (c, d)) = (upper.split_at(outputs), lower.split_at(outputs));
                let numbers = a.iter().zip(b).zip(c.iter().zip(d));
                for (((&a, &b), (&c, &d)), (most, square)) in
                    numbers.zip(most.iter_mut().zip(squares))
                {
                    let is_right = is_next(b, a);
                    let (upper, above) = if is_right { (b, 1) } else { (a, 0) };
                    let is_right = is_next(d, c);
                    let (lower, below) = if is_right { (d, 3) } else { (c, 2) };
                    let is_lower = is_next(lower, upper);
                    *most = if is_lower { lower } else { upper };
                    *square = if is_lower { below } else { above };
                }
            }
        }
    }
}

vectorised! {
    /// Writes each square's element of `g` to its position, and zeros to the other three.
    pub(super) fn spread(g: &[f32], squares: &[u8], line: usize, outputs: usize, whole: &mut [f32]) {
        let across = squares_of(line, outputs);
        let sources = g
            .chunks_exact((across * outputs).max(1))
            .zip(squares.chunks_exact((across * outputs).max(1)));
        for (lines, (g, squares)) in whole.chunks_exact_mut(2 * line).zip(sources) {
            let (upper, lower) = lines.split_at_mut(line);
            let pairs = upper.chunks_exact_mut(2 * outputs).zip(lower.chunks_exact_mut(2 * outputs));
            let sources = g.chunks_exact(outputs).zip(squares.chunks_exact(outputs));
            for ((upper, lower), (g, squares)) in pairs.zip(sources) {
                let ((a, b), (c, d)) = (upper.split_at_mut(outputs), lower.split_at_mut(outputs));
                for (position, to) in [a, b, c, d].into_iter().enumerate() {
                    for (to, (&g, &square)) in to.iter_mut().zip(g.iter().zip(squares)) {
                        *to = if usize::from(square) == position { g } else { 0.0 };
                    }
                }
            }
        }
    }
}
