//! Rows divided by their lengths, and the gradient of what was divided.

use super::rows::Rows;

/// Rows of length 1. A row of zeros, which has no direction, stays zeros and has no gradient.
#[derive(Default)]
pub(super) struct UnitRows {
    pub(super) values: Vec<f64>,
    lengths: Vec<f64>,
    width: usize,
}

impl UnitRows {
    /// Takes the directions of `rows`.
    pub(super) fn set(&mut self, rows: Rows<'_>) {
        rows.widen(&mut self.values);
        self.width = rows.width();
        self.lengths.clear();
        for row in self.values.chunks_exact_mut(self.width) {
            let length = row.iter().map(|value| value * value).sum::<f64>().sqrt();
            self.lengths.push(length);
            if length > 0.0 {
                for value in row.iter_mut() {
                    *value /= length;
                }
            }
        }
    }

    /// Writes the gradient of the original rows, given that of the directions.
    pub(super) fn backward(&self, by_directions: &[f64], gradient: &mut [f32]) {
        let directions = self.values.chunks_exact(self.width);
        let given = by_directions.chunks_exact(self.width);
        let to = gradient.chunks_exact_mut(self.width);
        for (((direction, given), to), &length) in directions.zip(given).zip(to).zip(&self.lengths)
        {
            let along: f64 = direction.iter().zip(given).map(|(a, b)| a * b).sum();
            let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
            for ((to, direction), given) in to.iter_mut().zip(direction).zip(given) {
                *to = ((given - direction * along) * scale) as f32;
            }
        }
    }
}
