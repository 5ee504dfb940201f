//! The loss of Barlow Twins (Zbontar et al. 2021): a correlation matrix close to the identity.

use super::product::{Matrix, multiply};
use super::rows::{Rows, WrongShape};
use super::standard::Columns;

/// Added to variances, as in PyTorch's `BatchNorm1d`.
const EPSILON: f64 = 1e-5;

/// Squared differences of the correlations of all dimensions of both views from the identity matrix. Memory: a square
/// of dimensions, in `f64`.
pub struct BarlowTwins {
    redundancy: f64,
    first: Columns,
    second: Columns,
    correlations: Vec<f64>,
    by_first: Vec<f64>,
    by_second: Vec<f64>,
}

impl BarlowTwins {
    /// `redundancy` (at least 0) is the weight of the correlations of different dimensions; 0.005 is usual.
    pub fn new(redundancy: f64) -> Self {
        BarlowTwins {
            redundancy,
            first: Columns::default(),
            second: Columns::default(),
            correlations: Vec::new(),
            by_first: Vec::new(),
            by_second: Vec::new(),
        }
    }

    /// The sum over all pairs of dimensions, and its gradient of `outputs`, (2 · samples, dimensions).
    pub fn compute(&mut self, outputs: Rows<'_>, gradient: &mut [f32]) -> Result<f64, WrongShape> {
        let samples = outputs.samples(2, "outputs")?;
        outputs.fits(gradient)?;
        let (dimensions, count) = (outputs.width(), samples as f64);
        let (first, second) = outputs.split(samples);
        for (view, rows) in [(&mut self.first, first), (&mut self.second, second)] {
            view.centre(rows, count, EPSILON);
            view.standardise();
        }
        let first = Matrix::new(&self.first.values, dimensions);
        let second = Matrix::new(&self.second.values, dimensions);
        multiply(first.transposed(), second, &mut self.correlations)?;
        let value = differences(&mut self.correlations, dimensions, count, self.redundancy);
        let by_correlations = Matrix::new(&self.correlations, dimensions);
        multiply(second, by_correlations.transposed(), &mut self.by_first)?;
        multiply(first, by_correlations, &mut self.by_second)?;
        let (to_first, to_second) = gradient.split_at_mut(samples * dimensions);
        self.first.backward(&self.by_first, to_first);
        self.second.backward(&self.by_second, to_second);
        Ok(value)
    }
}

/// The loss; replaces sums of products by its gradient of them.
fn differences(products: &mut [f64], dimensions: usize, count: f64, redundancy: f64) -> f64 {
    let mut value = 0.0;
    for (row, products) in products.chunks_exact_mut(dimensions).enumerate() {
        for (column, product) in products.iter_mut().enumerate() {
            let (target, weight) = if row == column {
                (1.0, 1.0)
            } else {
                (0.0, redundancy)
            };
            let difference = *product / count - target;
            value += weight * difference * difference;
            *product = 2.0 * weight * difference / count;
        }
    }
    value
}
