//! The loss of `VICReg` (Bardes et al. 2022): variance, invariance and covariance.

use schemars::JsonSchema;
use serde::Deserialize;

use super::product::{Matrix, multiply};
use super::rows::{Rows, WrongShape};
use super::standard::Columns;

/// Added to variances.
const EPSILON: f64 = 1e-4;

/// The squared difference of both views, how far each dimension's standard deviation is below 1, and the squares of
/// covariances. Memory: a square of dimensions, in `f64`.
pub struct VicReg {
    weights: VicRegWeights,
    view: Columns,
    covariances: Vec<f64>,
    by_values: Vec<f64>,
}

/// What counts how much.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VicRegWeights {
    /// Weight of the mean squared difference of both views, at least 0. Default 25.
    #[schemars(range(min = 0.0))]
    pub invariance: f64,
    /// Weight of how far the columns' standard deviations are below 1, at least 0. Default 25.
    #[schemars(range(min = 0.0))]
    pub variance: f64,
    /// Weight of the squared covariances of different columns, at least 0. Default 1.
    #[schemars(range(min = 0.0))]
    pub covariance: f64,
}

impl Default for VicRegWeights {
    fn default() -> Self {
        VicRegWeights {
            invariance: 25.0,
            variance: 25.0,
            covariance: 1.0,
        }
    }
}

impl VicReg {
    /// The loss by these weights.
    pub fn new(weights: VicRegWeights) -> Self {
        VicReg {
            weights,
            view: Columns::default(),
            covariances: Vec::new(),
            by_values: Vec::new(),
        }
    }

    /// The weighted sum of the three parts, and its gradient of `outputs`, (2 · samples, dimensions), with at least two
    /// samples.
    pub fn compute(&mut self, outputs: Rows<'_>, gradient: &mut [f32]) -> Result<f64, WrongShape> {
        let samples = outputs.samples(2, "outputs")?;
        outputs.fits(gradient)?;
        if samples < 2 {
            return Err(WrongShape(
                "one sample has no variance: vicreg needs at least 2".into(),
            ));
        }
        let (first, second) = outputs.split(samples);
        let (to_first, to_second) = gradient.split_at_mut(samples * outputs.width());
        let mut value = self.invariance(first, second, to_first);
        to_second
            .iter_mut()
            .zip(&*to_first)
            .for_each(|(to, by)| *to = -by);
        value += self.spread(first, to_first)?;
        value += self.spread(second, to_second)?;
        Ok(value)
    }

    /// The first part, with its gradient of the first view.
    fn invariance(&self, first: Rows<'_>, second: Rows<'_>, gradient: &mut [f32]) -> f64 {
        let scale = self.weights.invariance / first.values().len() as f64;
        let mut value = 0.0;
        let pairs = first.values().iter().zip(second.values());
        for (to, (&first, &second)) in gradient.iter_mut().zip(pairs) {
            let difference = f64::from(first) - f64::from(second);
            value += difference * difference;
            *to = (2.0 * scale * difference) as f32;
        }
        value * scale
    }

    /// The other parts for one view, whose gradient is added to `gradient`.
    fn spread(&mut self, rows: Rows<'_>, gradient: &mut [f32]) -> Result<f64, WrongShape> {
        let (dimensions, others) = (rows.width(), (rows.count() - 1) as f64);
        self.view.centre(rows, others, EPSILON);
        let values = Matrix::new(&self.view.values, dimensions);
        multiply(values.transposed(), values, &mut self.covariances)?;
        let value = covariance(
            &mut self.covariances,
            dimensions,
            others,
            self.weights.covariance,
        );
        let by_covariances = Matrix::new(&self.covariances, dimensions);
        multiply(values, by_covariances, &mut self.by_values)?;
        // Half of each view's mean, as both have one.
        let scale = self.weights.variance / (2 * dimensions) as f64;
        let below = self
            .view
            .deviations
            .iter()
            .map(|deviation| (1.0 - deviation).max(0.0));
        let rows = gradient
            .chunks_exact_mut(dimensions)
            .zip(self.by_values.chunks_exact(dimensions));
        for ((to, by), values) in rows.zip(self.view.values.chunks_exact(dimensions)) {
            let elements = to
                .iter_mut()
                .zip(by)
                .zip(values.iter().zip(&self.view.deviations));
            for ((to, by), (value, deviation)) in elements {
                let by_deviation = if *deviation < 1.0 { -scale } else { 0.0 };
                *to += (by + by_deviation * value / (others * deviation)) as f32;
            }
        }
        Ok(value + scale * below.sum::<f64>())
    }
}

/// The third part for one view; replaces sums of products by the matrix that values times which are the gradient: twice
/// that of the sums, as a value is in a row and in a column of them.
fn covariance(products: &mut [f64], dimensions: usize, others: f64, weight: f64) -> f64 {
    let scale = weight / dimensions as f64;
    let mut value = 0.0;
    for (row, products) in products.chunks_exact_mut(dimensions).enumerate() {
        for (column, product) in products.iter_mut().enumerate() {
            let weight = if row == column { 0.0 } else { scale };
            let covariance = *product / others;
            value += weight * covariance * covariance;
            *product = 4.0 * weight * covariance / others;
        }
    }
    value
}
