//! The loss of `BYOL` (Grill et al. 2020): the negative cosine of predictions and the teacher's projections.

use super::rows::{Rows, WrongShape};
use super::unit::UnitRows;

/// The mean of −cos between the student's prediction of one view and the teacher's projection of the other, over both
/// views: −1 where they have the same directions. The paper's loss is 4 times this, plus 4.
#[derive(Default)]
pub struct Byol {
    predictions: UnitRows,
    projections: UnitRows,
    by_predictions: Vec<f64>,
}

impl Byol {
    /// The loss and its gradient of `predictions`; both are (2 · samples, dimensions), with the views in the same order.
    pub fn compute(
        &mut self,
        predictions: Rows<'_>,
        projections: Rows<'_>,
        gradient: &mut [f32],
    ) -> Result<f64, WrongShape> {
        let samples = predictions.samples(2, "predictions")?;
        predictions.as_wide_as(&projections, "projections")?;
        predictions.fits(gradient)?;
        if projections.count() != 2 * samples {
            let (found, expected) = (projections.count(), 2 * samples);
            let message = format!("there are {found} projections for {expected} predictions");
            return Err(WrongShape(message));
        }
        self.predictions.set(predictions);
        self.projections.set(projections);
        let scale = -1.0 / (2 * samples) as f64;
        let (first, second) = self
            .projections
            .values
            .split_at(samples * predictions.width());
        let swapped = second.iter().chain(first);
        let pairs = self.predictions.values.iter().zip(swapped.clone());
        let value = scale * pairs.map(|(left, right)| left * right).sum::<f64>();
        self.by_predictions.clear();
        self.by_predictions
            .extend(swapped.map(|target| target * scale));
        self.predictions.backward(&self.by_predictions, gradient);
        Ok(value)
    }
}
