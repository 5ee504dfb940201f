//! Sums over the rows of a matrix.

use super::math::Number;
use crate::vectorised;

vectorised! {
    /// Adds the rows of a matrix to `sums`: as many columns as there are sums, from column `start` on.
    pub(crate) fn add_rows<T: Number>(sums: &mut [T], matrix: &[T], columns: usize, start: usize) {
        for row in matrix.chunks_exact(columns.max(1)) {
            for (sum, &x) in sums.iter_mut().zip(&row[start..]) {
                *sum += x;
            }
        }
    }
}
