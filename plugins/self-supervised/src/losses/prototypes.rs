//! Scores of embeddings by prototypes, and the cross-entropy of scores with the clusters of samples.

use super::product::{Matrix, multiply};
use super::rows::{Rows, WrongShape};
use super::softmax::softmax;

/// The products of embeddings and prototypes, both rows as wide: (embeddings, prototypes).
pub fn scores(embeddings: Rows<'_>, prototypes: Rows<'_>) -> Result<Vec<f32>, WrongShape> {
    prototypes.as_wide_as(&embeddings, "embeddings")?;
    let (mut left, mut right, mut scores) = (Vec::new(), Vec::new(), Vec::new());
    embeddings.widen(&mut left);
    prototypes.widen(&mut right);
    let width = prototypes.width();
    let right = Matrix::new(&right, width).transposed();
    multiply(Matrix::new(&left, width), right, &mut scores)?;
    Ok(scores.into_iter().map(|score| score as f32).collect())
}

/// Cross-entropy of the scores of all views with the clusters of their samples (`DeepCluster-v2`, in Caron et al. 2020).
pub struct Clusters {
    temperature: f64,
    logits: Vec<f64>,
}

impl Clusters {
    /// `temperature` (above 0) divides the scores; 0.1 is usual.
    pub fn new(temperature: f64) -> Self {
        Clusters {
            temperature,
            logits: Vec::new(),
        }
    }

    /// The mean over all rows of `scores`, (views · samples, clusters), and its gradient. `targets` has a row for each sample: how much it
    /// belongs to each cluster, 1 in all.
    pub fn compute(
        &mut self,
        scores: Rows<'_>,
        targets: Rows<'_>,
        gradient: &mut [f32],
    ) -> Result<f64, WrongShape> {
        scores.views(targets.count(), "scores")?;
        scores.as_wide_as(&targets, "targets")?;
        scores.fits(gradient)?;
        scores.widen(&mut self.logits);
        let width = scores.width();
        let scale = 1.0 / scores.count() as f64;
        let rows = self.logits.chunks_exact_mut(width);
        let rows = rows.zip(targets.values().chunks_exact(width).cycle());
        let mut value = 0.0;
        for ((logits, targets), gradient) in rows.zip(gradient.chunks_exact_mut(width)) {
            for (logit, &target) in logits.iter_mut().zip(targets) {
                *logit /= self.temperature;
                value -= f64::from(target) * *logit;
            }
            value += softmax(logits);
            for ((to, own), &target) in gradient.iter_mut().zip(logits).zip(targets) {
                *to = ((*own - f64::from(target)) * scale / self.temperature) as f32;
            }
        }
        Ok(value * scale)
    }
}
