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
    /// at least two views. The first views are assigned by `assigned`, their own scores or a teacher's, and predicted by all others.
    /// `queue` has the scores of earlier embeddings, which take part in the assignment: equally many rows for each assigned view,
    /// view-major, or none.
    pub fn compute(
        &mut self,
        scores: Rows<'_>,
        (of_assigned, queue): (Rows<'_>, Rows<'_>),
        samples: usize,
        gradient: &mut [f32],
    ) -> Result<f64, WrongShape> {
        let views = scores.views(samples, "scores")?;
        let assigned = of_assigned.views(samples, "assigned scores")?;
        scores.as_wide_as(&of_assigned, "assigned scores")?;
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
            let of_view = of_assigned.values().iter().skip(of * view).take(view);
            let of_queue = queue.values().iter().skip(of * queued).take(queued);
            self.balanced.clear();
            self.balanced
                .extend(of_view.chain(of_queue).map(|&score| f64::from(score)));
            balance(
                &self.config,
                &mut self.balanced,
                scores.width(),
                &mut self.by_prototype,
            );
            self.assignments.extend(self.balanced.iter().take(view));
        }
        let temperature = self.config.temperature;
        Ok(self
            .others
            .compute(scores, &self.assignments, samples, temperature, gradient))
    }
}

/// Assigns rows of scores to prototypes: each row sums up to 1, and each prototype has nearly the same sum of them.
pub fn balanced(config: &SwavConfig, scores: Rows<'_>) -> Vec<f32> {
    let mut rows = Vec::new();
    scores.widen(&mut rows);
    balance(config, &mut rows, scores.width(), &mut Vec::new());
    rows.into_iter().map(|part| part as f32).collect()
}

/// Replaces scores by assignments, as [`balanced`] does.
fn balance(config: &SwavConfig, rows: &mut [f64], prototypes: usize, by_prototype: &mut Vec<f64>) {
    // A factor of all is without effect, and keeps the largest from overflowing.
    let largest = rows.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for score in rows.iter_mut() {
        *score = ((*score - largest) / config.epsilon).exp();
    }
    for _ in 0..config.iterations {
        by_prototype.clear();
        by_prototype.resize(prototypes, 0.0);
        for row in rows.chunks_exact(prototypes) {
            by_prototype
                .iter_mut()
                .zip(row)
                .for_each(|(sum, part)| *sum += part);
        }
        for row in rows.chunks_exact_mut(prototypes) {
            row.iter_mut()
                .zip(&*by_prototype)
                .for_each(|(part, sum)| *part /= sum);
            let sum: f64 = row.iter().sum();
            for part in row.iter_mut() {
                *part /= sum;
            }
        }
    }
}
