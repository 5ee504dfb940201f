//! The weighted vote of the most similar training samples (Wu et al., 2018).

use super::features::{Features, largest};

/// Divides similarities in the weight of a vote, exp(similarity / temperature), as in DINO's evaluation.
const TEMPERATURE: f64 = 0.07;

/// Training samples that vote.
pub(super) struct Neighbours {
    /// Rows of length 1.
    rows: Vec<f64>,
    width: usize,
    classes: Vec<u32>,
    /// Number of classes.
    count: usize,
    /// Number of votes.
    votes: usize,
}

impl Neighbours {
    /// Lets the `votes` most similar of these samples vote, by the cosine of features, for one of `count` classes.
    pub(super) fn new(training: &Features, count: usize, votes: usize) -> Neighbours {
        Neighbours {
            rows: training.rows().flat_map(unit).collect(),
            width: training.width,
            classes: training.classes.clone(),
            count,
            votes: votes.clamp(1, training.classes.len().max(1)),
        }
    }

    /// The class of each sample; of equal votes the first class.
    pub(super) fn classify(&self, samples: &Features) -> Vec<u32> {
        samples.rows().map(|row| self.vote(&unit(row))).collect()
    }

    fn vote(&self, sample: &[f64]) -> u32 {
        let rows = self.rows.chunks_exact(self.width);
        let of_row = |row: &[f64]| row.iter().zip(sample).map(|(a, b)| a * b).sum::<f64>();
        let mut found: Vec<(usize, f64)> = rows.map(of_row).enumerate().collect();
        // Of equally similar samples the first.
        let by_similarity =
            |a: &(usize, f64), b: &(usize, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if self.votes < found.len() {
            found.select_nth_unstable_by(self.votes, by_similarity);
            found.truncate(self.votes);
        }
        // The sums of votes don't depend on how they were selected.
        found.sort_unstable_by(by_similarity);
        let mut votes = vec![0.0; self.count];
        for (index, similarity) in found {
            let class = self.classes.get(index).copied().unwrap_or_default();
            if let Some(votes) = votes.get_mut(class as usize) {
                *votes += (similarity / TEMPERATURE).exp();
            }
        }
        largest(votes)
    }
}

/// A row divided by its length; one of zeros stays.
fn unit(row: &[f32]) -> Vec<f64> {
    let row: Vec<f64> = row.iter().map(|&value| f64::from(value)).collect();
    let length = row.iter().map(|value| value * value).sum::<f64>().sqrt();
    let length = if length > 0.0 { length } else { 1.0 };
    row.into_iter().map(|value| value / length).collect()
}
