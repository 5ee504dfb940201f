//! Logistic regression on standardised features.

use super::features::{Features, largest};
use super::minimise::minimise;

/// How close to the minimum: the largest element of the gradient of the mean loss.
const TOLERANCE: f64 = 1e-6;

/// A linear classifier: scikit-learn's `LogisticRegression` with `C` = 1, after its `StandardScaler`.
pub(super) struct LinearProbe {
    means: Vec<f64>,
    deviations: Vec<f64>,
    /// A row for each class: a weight for each feature, and a bias.
    weights: Vec<f64>,
}

impl LinearProbe {
    /// Fits the classifier to training samples of `count` classes: the minimum of the mean cross-entropy plus the sum of squared
    /// weights over twice the number of samples.
    pub(super) fn fit(training: &Features, count: usize) -> LinearProbe {
        let (means, deviations) = statistics(training);
        let mut probe = LinearProbe {
            weights: vec![0.0; count * (training.width + 1)],
            means,
            deviations,
        };
        let rows = probe.standardised(training);
        let mut weights = std::mem::take(&mut probe.weights);
        minimise(&mut weights, TOLERANCE, |weights, gradient| {
            loss(
                weights,
                (&rows, training.width),
                &training.classes,
                gradient,
            )
        });
        probe.weights = weights;
        probe
    }

    /// The likeliest class of each sample.
    pub(super) fn classify(&self, samples: &Features) -> Vec<u32> {
        let rows = self.standardised(samples);
        let rows = rows.chunks_exact(samples.width);
        rows.map(|row| largest(logits(&self.weights, row)))
            .collect()
    }

    /// Rows less the training's means, divided by its standard deviations.
    fn standardised(&self, features: &Features) -> Vec<f64> {
        let mut all = Vec::with_capacity(features.values.len());
        for row in features.rows() {
            let scales = self.means.iter().zip(&self.deviations);
            let pairs = row.iter().zip(scales);
            all.extend(
                pairs.map(|(&value, (mean, deviation))| (f64::from(value) - mean) / deviation),
            );
        }
        all
    }
}

/// Mean and standard deviation of each feature; 1 for one that is constant.
fn statistics(features: &Features) -> (Vec<f64>, Vec<f64>) {
    let count = features.classes.len() as f64;
    let mut means = vec![0.0; features.width];
    for row in features.rows() {
        means
            .iter_mut()
            .zip(row)
            .for_each(|(sum, &value)| *sum += f64::from(value) / count);
    }
    let mut variances = vec![0.0; features.width];
    for row in features.rows() {
        for ((sum, &value), mean) in variances.iter_mut().zip(row).zip(&means) {
            *sum += (f64::from(value) - mean).powi(2) / count;
        }
    }
    let deviations = variances
        .iter()
        .map(|&variance: &f64| if variance > 0.0 { variance.sqrt() } else { 1.0 });
    (means, deviations.collect())
}

/// Logits of a row for all classes.
fn logits<'a>(weights: &'a [f64], row: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    weights.chunks_exact(row.len() + 1).map(move |weights| {
        let products = weights
            .iter()
            .zip(row)
            .map(|(weight, value)| weight * value);
        products.sum::<f64>() + weights.last().copied().unwrap_or_default()
    })
}

/// What is minimised, with its gradient.
fn loss(
    weights: &[f64],
    (rows, width): (&[f64], usize),
    classes: &[u32],
    gradient: &mut [f64],
) -> f64 {
    gradient.fill(0.0);
    let mut value = 0.0;
    let mut probabilities = Vec::new();
    for (row, &class) in rows.chunks_exact(width).zip(classes) {
        probabilities.clear();
        probabilities.extend(logits(weights, row));
        let largest = probabilities
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = probabilities
            .iter()
            .map(|logit| (logit - largest).exp())
            .sum();
        let total = largest + sum.ln();
        let by_classes = gradient.chunks_exact_mut(width + 1);
        for ((index, &logit), by) in (0_u32..).zip(&probabilities).zip(by_classes) {
            let mut error = (logit - total).exp();
            if index == class {
                value += total - logit;
                error -= 1.0;
            }
            let values = row.iter().chain(std::iter::once(&1.0));
            by.iter_mut()
                .zip(values)
                .for_each(|(by, value)| *by += error * value);
        }
    }
    let count = classes.len() as f64;
    let mut squares = 0.0;
    let pairs = weights
        .chunks_exact(width + 1)
        .zip(gradient.chunks_exact_mut(width + 1));
    for (weights, by) in pairs {
        for (index, (weight, by)) in weights.iter().zip(by).enumerate() {
            // Biases are free.
            let held = if index < width { *weight } else { 0.0 };
            squares += held * held;
            *by = (*by + held) / count;
        }
    }
    (value + squares / 2.0) / count
}

#[cfg(test)]
impl LinearProbe {
    /// What was minimised, at the minimum.
    pub(super) fn loss(&self, training: &Features) -> f64 {
        let rows = self.standardised(training);
        let mut gradient = vec![0.0; self.weights.len()];
        loss(
            &self.weights,
            (&rows, training.width),
            &training.classes,
            &mut gradient,
        )
    }

    pub(super) fn weights(&self) -> &[f64] {
        &self.weights
    }
}
