//! Compensated sums with twice the precision, for a variance from sums over batches.
//!
//! Σ(y − ȳ)² has to be computed from Σy and Σy², which add up over batches; but their difference
//! loses all digits of `f64` if the mean is large compared to the spread.

/// A sum and its rounding error.
pub(super) struct CompensatedSum<'a> {
    pub(super) sum: &'a mut f64,
    pub(super) rest: &'a mut f64,
}

impl CompensatedSum<'_> {
    /// Adds a value with Knuth's two-sum (The Art of Computer Programming 2, 4.2.2).
    pub(super) fn add(self, value: f64) {
        let sum = *self.sum + value;
        let taken = sum - *self.sum;
        *self.rest += (*self.sum - (sum - taken)) + (value - taken);
        *self.sum = sum;
    }
}

/// Returns Σ(y − ȳ)² of `count` values from their sum and sum of squares; 0 if the result is only
/// rounding error.
pub(super) fn spread(count: f64, sum: (f64, f64), squares: (f64, f64)) -> f64 {
    let (whole, rest_of_whole) = product(count, squares.0);
    let (square, rest_of_square) = product(sum.0, sum.0);
    let rest = rest_of_whole - rest_of_square + count * squares.1 - 2.0 * sum.0 * sum.1;
    let difference = (whole - square) + rest;
    // The smallest nonzero spread of f32 values is 2⁻⁴⁸ times the squares, divided by the count.
    if difference <= whole * 1e-28 {
        return 0.0;
    }
    difference / count
}

/// Returns a product and its rounding error (Dekker, 1971, with a fused multiply-add).
fn product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}
