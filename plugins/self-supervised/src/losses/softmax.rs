//! Softmax of rows, and cross-entropy with the distributions of other views.

use super::rows::Rows;

/// Replaces `row` by its softmax, and returns log Σ exp. At least one element must be finite.
pub(super) fn softmax(row: &mut [f64]) -> f64 {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for value in row.iter_mut() {
        *value = (*value - largest).exp();
    }
    let sum: f64 = row.iter().sum();
    for value in row.iter_mut() {
        *value /= sum;
    }
    largest + sum.ln()
}

/// Cross-entropy of rows with the distributions that other views of their samples have.
#[derive(Default)]
pub(super) struct OtherViews {
    logits: Vec<f64>,
    targets: Vec<f64>,
}

impl OtherViews {
    /// The mean over pairs of views and over samples, of logits that are `outputs` divided by `temperature`, with its
    /// gradient of the outputs. `distributions` has rows as wide, of the first views, each with `samples` rows.
    pub(super) fn compute(
        &mut self,
        outputs: Rows<'_>,
        distributions: &[f64],
        samples: usize,
        temperature: f64,
        gradient: &mut [f32],
    ) -> f64 {
        let view = samples * outputs.width();
        outputs.widen(&mut self.logits);
        let (views, given) = (self.logits.len() / view, distributions.len() / view);
        self.add_others(distributions, view);
        let scale = 1.0 / (given * (views - 1) * samples) as f64;
        let logits = self.logits.chunks_exact_mut(outputs.width());
        let targets = self.targets.chunks_exact(outputs.width());
        let gradients = gradient.chunks_exact_mut(outputs.width());
        let mut value = 0.0;
        for ((logits, targets), gradient) in logits.zip(targets).zip(gradients) {
            for logit in logits.iter_mut() {
                *logit /= temperature;
            }
            value -= targets
                .iter()
                .zip(&*logits)
                .map(|(target, logit)| target * logit)
                .sum::<f64>();
            let total: f64 = targets.iter().sum();
            value += total * softmax(logits);
            for ((to, target), own) in gradient.iter_mut().zip(targets).zip(logits) {
                *to = ((total * *own - target) * scale / temperature) as f32;
            }
        }
        value * scale
    }

    /// For each view, the sum of the distributions of all others. `view` is the number of elements of one.
    fn add_others(&mut self, distributions: &[f64], view: usize) {
        self.targets.clear();
        self.targets.resize(self.logits.len(), 0.0);
        for (of, targets) in self.targets.chunks_exact_mut(view).enumerate() {
            let others = distributions.chunks_exact(view).enumerate();
            for (_, other) in others.filter(|(from, _)| *from != of) {
                targets
                    .iter_mut()
                    .zip(other)
                    .for_each(|(sum, other)| *sum += other);
            }
        }
    }
}
