//! The loss of `SwAV` (Caron et al. 2020): swapped predictions of balanced assignments to prototypes.

use super::rows::{Rows, WrongShape};
use super::softmax::OtherViews;

/// Cross-entropy of each view's scores with the assignments of other views, which the algorithm of Sinkhorn and Knopp
/// spreads evenly over the prototypes.
pub struct Swav {
    config: SwavConfig,
    /// One view and its rows of the queue.
    balanced: Vec<f64>,
    /// Of all assigned views.
    assignments: Vec<f64>,
    by_prototype: Vec<f64>,
    others: OtherViews,
}

/// How scores become assignments and predictions.
#[derive(Clone, Copy, Debug)]
pub struct SwavConfig {
    /// Divides the scores that predict; above 0. 0.1 is usual.
    pub temperature: f64,
    /// Divides the scores that are assigned; above 0: the smaller, the closer each row is to a single prototype. 0.05 is
    /// usual.
    pub epsilon: f64,
    /// Rounds of Sinkhorn and Knopp, at least 1. 3 is usual.
    pub iterations: usize,
}

impl Swav {
    /// The loss by these settings.
    pub fn new(config: SwavConfig) -> Self {
        Swav {
            config,
            balanced: Vec::new(),
            assignments: Vec::new(),
            by_prototype: Vec::new(),
            others: OtherViews::default(),
        }
    }

    /// The mean over pairs of views and over samples, and its gradient of `scores`, (views · samples, prototypes), with
    /// at least two views. The first `assigned` views are assigned, and predicted by all others. `queue` has the scores
    /// of earlier embeddings, which take part in the assignment: equally many rows for each assigned view, view-major,
    /// or none.
    pub fn compute(
        &mut self,
        scores: Rows<'_>,
        queue: Rows<'_>,
        samples: usize,
        assigned: usize,
        gradient: &mut [f32],
    ) -> Result<f64, WrongShape> {
        let views = scores.views(samples, "scores")?;
        scores.as_wide_as(&queue, "queue's scores")?;
        scores.fits(gradient)?;
        let queued = queue.count();
        if views < 2 || !(1..=views).contains(&assigned) || !queued.is_multiple_of(assigned) {
            return Err(WrongShape(format!(
                "{assigned} of {views} views cannot be assigned with {queued} rows of a queue; there must be at least \
                 2 views, and equally many rows for each assigned one"
            )));
        }
        self.assignments.clear();
        let (view, queued) = (samples * scores.width(), queued / assigned * scores.width());
        for of in 0..assigned {
            let of_view = scores.values().iter().skip(of * view).take(view);
            let of_queue = queue.values().iter().skip(of * queued).take(queued);
            self.balanced.clear();
            self.balanced
                .extend(of_view.chain(of_queue).map(|&score| f64::from(score)));
            self.balance(scores.width());
            self.assignments.extend(self.balanced.iter().take(view));
        }
        let temperature = self.config.temperature;
        Ok(self
            .others
            .compute(scores, &self.assignments, samples, temperature, gradient))
    }

    /// Replaces scores by assignments: each row sums up to 1, and each prototype has nearly the same sum of them.
    fn balance(&mut self, prototypes: usize) {
        let epsilon = self.config.epsilon;
        // A factor of all is without effect, and keeps the largest from overflowing.
        let largest = self
            .balanced
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        for score in &mut self.balanced {
            *score = ((*score - largest) / epsilon).exp();
        }
        for _ in 0..self.config.iterations {
            self.by_prototype.clear();
            self.by_prototype.resize(prototypes, 0.0);
            for row in self.balanced.chunks_exact(prototypes) {
                self.by_prototype
                    .iter_mut()
                    .zip(row)
                    .for_each(|(sum, part)| *sum += part);
            }
            for row in self.balanced.chunks_exact_mut(prototypes) {
                row.iter_mut()
                    .zip(&self.by_prototype)
                    .for_each(|(part, sum)| *part /= sum);
                let sum: f64 = row.iter().sum();
                for part in row.iter_mut() {
                    *part /= sum;
                }
            }
        }
    }
}
