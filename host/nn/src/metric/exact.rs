//! Sums with twice the digits, for a variance that can be added up.
//!
//! Σ(y − ȳ)² has to come from Σy and Σy², since those of batches add up; but their difference loses
//! all digits of `f64` where the mean is large beside the spread.

/// A sum and what was rounded off it.
pub(super) struct Exact<'a> {
    pub(super) sum: &'a mut f64,
    pub(super) rest: &'a mut f64,
}

impl Exact<'_> {
    /// Adds a number: Knuth's two-sum (The Art of Computer Programming 2, 4.2.2).
    pub(super) fn add(self, value: f64) {
        let sum = *self.sum + value;
        let taken = sum - *self.sum;
        *self.rest += (*self.sum - (sum - taken)) + (value - taken);
        *self.sum = sum;
    }
}

/// Σ(y − ȳ)² of `count` numbers, from their sum and that of their squares; 0 where it is nothing but
/// rounding.
pub(super) fn spread(count: f64, sum: (f64, f64), squares: (f64, f64)) -> f64 {
    let (whole, rest_of_whole) = product(count, squares.0);
    let (square, rest_of_square) = product(sum.0, sum.0);
    let rest = rest_of_whole - rest_of_square + count * squares.1 - 2.0 * sum.0 * sum.1;
    let difference = (whole - square) + rest;
    // The smallest spread that f32 can have is 2⁻⁴⁸ of the squares, over the count.
    if difference <= whole * 1e-28 {
        return 0.0;
    }
    difference / count
}

/// A product and what is rounded off it (Dekker, 1971, with a fused multiplication).
fn product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}
