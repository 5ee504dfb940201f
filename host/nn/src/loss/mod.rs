//! Losses, as configured and as computed: PyTorch's with `reduction="mean"`.
//!
//! They avoid candle's fused `softmax_last_dim`, which has no backward pass, and its `abs` and `relu`,
//! whose gradients at 0 differ from those that a loss needs.

mod binary_cross_entropy;
mod class_weights;
mod config;
mod cross_entropy;
mod error;
mod regression;
pub(crate) mod shapes;
#[cfg(test)]
mod tests;
mod written;

use candle_core::{D, Result, Tensor, bail};

pub use binary_cross_entropy::BinaryCrossEntropy;
pub use class_weights::{ClassWeightRule, ClassWeights};
pub use config::LossConfig;
pub use cross_entropy::{CrossEntropy, cross_entropy};
pub use error::LossError;
use regression::{absolute_errors, huber_errors, squared_errors};
pub use regression::{huber, l1, mse};
use shapes::{LogitRows, check_weights, total, weighted_mean};
pub use written::WrittenLoss;

use crate::precision::widened;

/// A loss, which measures as a scalar how far a model's outputs are from the targets.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// Cross entropy of logits with target classes.
    CrossEntropy(CrossEntropy),
    /// Binary cross entropy of a logit per target.
    BinaryCrossEntropy(BinaryCrossEntropy),
    /// Mean squared error.
    Mse,
    /// Mean absolute error.
    L1,
    /// Huber loss: quadratic for small errors, linear for large ones.
    Huber {
        /// Absolute error above which the loss is linear, above 0.
        delta: f64,
    },
    /// What a hook gives for each batch.
    Given,
}

/// Why a batch has no loss.
const NOT_GIVEN: &str = "the manifest says `\"loss\": \"given\"`, and no hook has given the loss of this batch at `after_forward`: a hook \
                         such as `simclr` does, or one of your own by `task.set_loss(…)`";

impl Loss {
    /// Returns the mean over everything that [`weight`](Loss::weight) counts: a differentiable scalar of
    /// the outputs' type, 0 if nothing counts.
    ///
    /// Outputs are (samples, classes), (samples, positions, classes) or (samples, numbers); targets
    /// (samples) `u32`, (samples, positions) `u32` or (samples, numbers).
    ///
    /// # Errors
    ///
    /// If the shapes do not fit each other, or a target is not one of the classes.
    pub fn forward(&self, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        self.forward_weighted(outputs, targets, None)
    }

    /// As [`forward`](Loss::forward), with a weight for each sample, 0 or more, if there are any.
    ///
    /// # Errors
    ///
    /// Also if there are not as many weights as samples.
    pub fn forward_weighted(
        &self,
        outputs: &Tensor,
        targets: &Tensor,
        weights: Option<&[f32]>,
    ) -> Result<Tensor> {
        if let Loss::Given = self {
            bail!("{NOT_GIVEN}");
        }
        check_weights(targets, weights)?;
        let outputs = &widened(outputs)?;
        if let Loss::CrossEntropy(loss) = self {
            return loss.forward(outputs, targets, weights);
        }
        if let (Loss::Mse, None) = (self, weights) {
            return mse(outputs, targets);
        }
        let errors = match self {
            Loss::BinaryCrossEntropy(loss) => loss.errors(outputs, targets)?,
            Loss::L1 => absolute_errors(outputs, targets)?,
            Loss::Huber { delta } => huber_errors(outputs, targets, *delta)?,
            Loss::Mse | Loss::CrossEntropy(_) | Loss::Given => squared_errors(outputs, targets)?,
        };
        weighted_mean(&errors, weights)
    }

    /// Returns the divisor of the mean: the number of samples or positions that count, or the sum of
    /// their classes' weights; for numeric targets, the number of elements. The mean over several
    /// batches is Σ weight · loss / Σ weight.
    ///
    /// # Errors
    ///
    /// If a target is not one of the classes.
    pub fn weight(&self, targets: &Tensor) -> Result<f64> {
        self.weight_of(targets, None)
    }

    /// As [`weight`](Loss::weight), of samples with weights.
    ///
    /// # Errors
    ///
    /// Also if there are not as many weights as samples.
    pub fn weight_of(&self, targets: &Tensor, weights: Option<&[f32]>) -> Result<f64> {
        check_weights(targets, weights)?;
        match (self, weights) {
            (Loss::CrossEntropy(loss), _) => loss.weight(targets, weights),
            (_, None) => Ok(targets.elem_count() as f64),
            (_, Some(weights)) => Ok(total(weights, targets.elem_count())),
        }
    }

    /// Whether [`weight`](Loss::weight) depends on which targets a batch has, not on their number alone.
    pub fn has_varying_weight(&self) -> bool {
        match self {
            Loss::CrossEntropy(loss) => loss.class_weights.is_some() || loss.ignore_index.is_some(),
            Loss::BinaryCrossEntropy(_)
            | Loss::Mse
            | Loss::L1
            | Loss::Huber { .. }
            | Loss::Given => false,
        }
    }
}

/// Counts the samples or positions with the largest logit at their target; the first of equal logits
/// is taken as the largest.
pub fn correct_count(logits: &Tensor, targets: &Tensor) -> Result<usize> {
    let rows = LogitRows::new(logits, targets)?;
    let predicted: Vec<u32> = rows.logits.argmax(D::Minus1)?.to_vec1()?;
    let pairs = predicted.iter().zip(&rows.targets);
    Ok(pairs
        .filter(|(predicted, target)| predicted == target)
        .count())
}
