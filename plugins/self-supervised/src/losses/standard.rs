//! Columns of which the mean is subtracted, and which are divided by their standard deviation.

use super::rows::Rows;

/// One view's rows, less their columns' means.
#[derive(Default)]
pub(super) struct Columns {
    /// Row-major.
    pub(super) values: Vec<f64>,
    /// Of each column, its standard deviation.
    pub(super) deviations: Vec<f64>,
    sums: Vec<f64>,
    products: Vec<f64>,
}

impl Columns {
    /// Takes `rows` less their columns' means. A variance is the sum of squares over `divisor`, plus `epsilon`.
    pub(super) fn centre(&mut self, rows: Rows<'_>, divisor: f64, epsilon: f64) {
        let width = rows.width();
        rows.widen(&mut self.values);
        let count = rows.count() as f64;
        sum_columns(&self.values, width, &mut self.sums);
        for row in self.values.chunks_exact_mut(width) {
            let means = self.sums.iter().map(|sum| sum / count);
            row.iter_mut()
                .zip(means)
                .for_each(|(value, mean)| *value -= mean);
        }
        sum_products(&self.values, &self.values, width, &mut self.deviations);
        for deviation in &mut self.deviations {
            *deviation = (*deviation / divisor + epsilon).sqrt();
        }
    }

    /// Divides by the standard deviations.
    pub(super) fn standardise(&mut self) {
        for row in self.values.chunks_exact_mut(self.deviations.len()) {
            let pairs = row.iter_mut().zip(&self.deviations);
            pairs.for_each(|(value, deviation)| *value /= deviation);
        }
    }

    /// Writes the gradient of the rows, given that of the standardised ones. The divisor was the number of rows.
    pub(super) fn backward(&mut self, by_standard: &[f64], gradient: &mut [f32]) {
        let width = self.deviations.len();
        let count = (self.values.len() / width) as f64;
        sum_columns(by_standard, width, &mut self.sums);
        sum_products(by_standard, &self.values, width, &mut self.products);
        let rows = self
            .values
            .chunks_exact(width)
            .zip(by_standard.chunks_exact(width));
        for ((values, given), to) in rows.zip(gradient.chunks_exact_mut(width)) {
            let sums = self.sums.iter().zip(&self.products).zip(&self.deviations);
            let elements = to.iter_mut().zip(values.iter().zip(given));
            for ((to, (value, given)), ((sum, product), deviation)) in elements.zip(sums) {
                *to = ((given - (sum + value * product) / count) / deviation) as f32;
            }
        }
    }
}

fn sum_columns(values: &[f64], width: usize, to: &mut Vec<f64>) {
    to.clear();
    to.resize(width, 0.0);
    for row in values.chunks_exact(width) {
        to.iter_mut()
            .zip(row)
            .for_each(|(sum, value)| *sum += value);
    }
}

fn sum_products(left: &[f64], right: &[f64], width: usize, to: &mut Vec<f64>) {
    to.clear();
    to.resize(width, 0.0);
    for (left, right) in left.chunks_exact(width).zip(right.chunks_exact(width)) {
        let products = left.iter().zip(right).map(|(left, right)| left * right);
        to.iter_mut()
            .zip(products)
            .for_each(|(sum, product)| *sum += product);
    }
}
