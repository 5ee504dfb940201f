//! The loss of `SimCLR` (Chen et al. 2020): normalised temperature-scaled cross-entropy.

use super::product::{Matrix, add_product, multiply};
use super::rows::{Rows, WrongShape};
use super::softmax::softmax;
use super::unit::UnitRows;

/// Cross-entropy over cosine similarities: each row is to find its sample's other view among all other rows. Memory:
/// a square of rows, in `f64`.
pub struct NtXent {
    temperature: f64,
    unit: UnitRows,
    similarities: Vec<f64>,
    by_unit: Vec<f64>,
}

impl NtXent {
    /// `temperature` (above 0) divides the similarities; 0.5 and 0.1 are usual.
    pub fn new(temperature: f64) -> Self {
        NtXent {
            temperature,
            unit: UnitRows::default(),
            similarities: Vec::new(),
            by_unit: Vec::new(),
        }
    }

    /// The mean over all rows of `outputs`, (2 · samples, dimensions), and its gradient.
    pub fn compute(&mut self, outputs: Rows<'_>, gradient: &mut [f32]) -> Result<f64, WrongShape> {
        let samples = outputs.samples(2, "outputs")?;
        outputs.fits(gradient)?;
        self.unit.set(outputs);
        let unit = Matrix::new(&self.unit.values, outputs.width());
        multiply(unit, unit.transposed(), &mut self.similarities)?;
        let value = cross_entropy(&mut self.similarities, samples, self.temperature);
        let by_similarities = Matrix::new(&self.similarities, 2 * samples);
        // A similarity counts for both of its rows.
        multiply(by_similarities, unit, &mut self.by_unit)?;
        add_product(by_similarities.transposed(), unit, &mut self.by_unit)?;
        self.unit.backward(&self.by_unit, gradient);
        Ok(value)
    }
}

/// The loss; replaces the similarities by its gradient of them.
fn cross_entropy(similarities: &mut [f64], samples: usize, temperature: f64) -> f64 {
    let rows = 2 * samples;
    let mut value = 0.0;
    for (row, logits) in similarities.chunks_exact_mut(rows).enumerate() {
        let partner = (row + samples) % rows;
        for logit in logits.iter_mut() {
            *logit /= temperature;
        }
        logits[row] = f64::NEG_INFINITY;
        let of_partner = logits[partner];
        value += softmax(logits) - of_partner;
        logits[partner] -= 1.0;
        let scale = 1.0 / (rows as f64 * temperature);
        for by_logit in logits.iter_mut() {
            *by_logit *= scale;
        }
    }
    value / rows as f64
}
