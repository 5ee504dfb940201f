//! Losses, in the manifest and computed, as PyTorch's with `reduction="mean"`.
//!
//! They are written out of plain operations: candle's fused `softmax_last_dim` has no backward pass,
//! and the gradients of `abs` and `relu` at 0 aren't those that a loss wants there.

mod binary_cross_entropy;
mod config;
mod cross_entropy;
mod error;
mod regression;
pub(crate) mod shapes;
#[cfg(test)]
mod tests;

use candle_core::{D, Result, Tensor};

pub use binary_cross_entropy::BinaryCrossEntropy;
pub use config::LossConfig;
pub use cross_entropy::{CrossEntropy, cross_entropy};
pub use error::Error;
pub use regression::{huber, l1, mse};
use shapes::Rows;

/// A loss: how far a model's outputs are from the targets, as one number.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// Of logits against classes.
    CrossEntropy(CrossEntropy),
    /// Of one logit for each yes or no.
    BinaryCrossEntropy(BinaryCrossEntropy),
    /// The mean of the squared errors.
    Mse,
    /// The mean of the errors' sizes.
    L1,
    /// Squared where errors are small, linear where they're large.
    Huber {
        /// The size from which on an error counts linearly, above 0.
        delta: f64,
    },
}

impl Loss {
    /// The mean over what [`weight`](Loss::weight) counts: a scalar with a gradient, of the outputs'
    /// type; 0 where there is nothing to count.
    ///
    /// Outputs are (samples, classes), (samples, positions, classes) or (samples, numbers); targets
    /// (samples) `u32`, (samples, positions) `u32` or (samples, numbers).
    ///
    /// # Errors
    ///
    /// Where the shapes don't belong together, or a target is none of the classes.
    pub fn forward(&self, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        match self {
            Loss::CrossEntropy(loss) => loss.forward(outputs, targets),
            Loss::BinaryCrossEntropy(loss) => loss.forward(outputs, targets),
            Loss::Mse => mse(outputs, targets),
            Loss::L1 => l1(outputs, targets),
            Loss::Huber { delta } => huber(outputs, targets, *delta),
        }
    }

    /// What the mean is divided by: the samples or positions that count, or the sum of their classes'
    /// weights; the elements of numbers. The mean over several batches is Σ weight · loss / Σ weight.
    ///
    /// # Errors
    ///
    /// Where a target is none of the classes.
    pub fn weight(&self, targets: &Tensor) -> Result<f64> {
        match self {
            Loss::CrossEntropy(loss) => loss.weight(targets),
            _ => Ok(targets.elem_count() as f64),
        }
    }
}

/// How many samples or positions have their largest logit at their target; the first of equal ones
/// counts.
pub fn correct_count(logits: &Tensor, targets: &Tensor) -> Result<usize> {
    let rows = Rows::new(logits, targets)?;
    let predicted: Vec<u32> = rows.logits.argmax(D::Minus1)?.to_vec1()?;
    let pairs = predicted.iter().zip(&rows.targets);
    Ok(pairs
        .filter(|(predicted, target)| predicted == target)
        .count())
}
