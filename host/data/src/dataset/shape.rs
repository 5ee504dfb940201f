//! Shapes of samples.

/// Returns the number of elements of a shape; none if there are none, or too many to count.
pub(crate) fn elements(shape: &[usize]) -> Option<usize> {
    let sides = shape.iter();
    let product = sides.copied().try_fold(1, usize::checked_mul);
    product.filter(|&product| product > 0)
}
