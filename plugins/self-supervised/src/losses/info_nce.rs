//! The loss of `MoCo` (He et al. 2020): `InfoNCE` with a queue of negatives.

use super::product::{Matrix, add_product, multiply};
use super::rows::{Rows, WrongShape};
use super::softmax::softmax;
use super::unit::UnitRows;

/// Queries whose similarities are held at once.
const BLOCK: usize = 64;

/// Cross-entropy over cosine similarities: each query is to find its key among the keys of a queue.
pub struct InfoNce {
    temperature: f64,
    queries: UnitRows,
    keys: UnitRows,
    queue: Vec<f64>,
    logits: Vec<f64>,
    by_queries: Vec<f64>,
}

impl InfoNce {
    /// `temperature` (above 0) divides the similarities; 0.07 and 0.2 are usual.
    pub fn new(temperature: f64) -> Self {
        InfoNce {
            temperature,
            queries: UnitRows::default(),
            keys: UnitRows::default(),
            queue: Vec::new(),
            logits: Vec::new(),
            by_queries: Vec::new(),
        }
    }

    /// The mean over `queries`, and its gradient of them. `keys` has a row for each query, the teacher's for another
    /// view of its sample; `queue` has earlier keys. Queries and keys are divided by their lengths here, those in the
    /// queue are used as they are.
    pub fn compute(
        &mut self,
        queries: Rows<'_>,
        keys: Rows<'_>,
        queue: Rows<'_>,
        gradient: &mut [f32],
    ) -> Result<f64, WrongShape> {
        let count = queries.samples(1, "queries")?;
        queries.as_wide_as(&keys, "keys")?;
        queries.as_wide_as(&queue, "keys in the queue")?;
        queries.fits(gradient)?;
        if keys.count() != count {
            let keys = keys.count();
            return Err(WrongShape(format!(
                "there are {keys} keys for {count} queries"
            )));
        }
        self.queries.set(queries);
        self.keys.set(keys);
        queue.widen(&mut self.queue);
        let value = self.cross_entropy(queries.width())?;
        self.queries.backward(&self.by_queries, gradient);
        Ok(value)
    }

    /// The loss, with its gradient of the queries' directions in `by_queries`.
    fn cross_entropy(&mut self, width: usize) -> Result<f64, WrongShape> {
        let count = self.queries.values.len() / width;
        let scale = 1.0 / (count as f64 * self.temperature);
        let queue = Matrix::new(&self.queue, width);
        self.by_queries.clear();
        let mut value = 0.0;
        let blocks = self.queries.values.chunks(BLOCK * width);
        for (queries, keys) in blocks.zip(self.keys.values.chunks(BLOCK * width)) {
            let of_block = Matrix::new(queries, width);
            multiply(of_block, queue.transposed(), &mut self.logits)?;
            let negatives = self.queue.len() / width;
            let pairs = queries.chunks_exact(width).zip(keys.chunks_exact(width));
            let first = self.by_queries.len();
            self.by_queries.extend_from_slice(keys);
            let by_keys = self.by_queries[first..].chunks_exact_mut(width);
            for (row, ((query, key), by_key)) in pairs.zip(by_keys).enumerate() {
                let logits = &mut self.logits[row * negatives..][..negatives];
                let positive = dot(query, key) / self.temperature;
                let (loss, by_positive) = one(positive, logits, self.temperature);
                value += loss;
                for by in by_key.iter_mut() {
                    *by *= by_positive * scale;
                }
                for by in logits.iter_mut() {
                    *by *= scale;
                }
            }
            if negatives > 0 {
                let by_logits = Matrix::new(&self.logits, negatives);
                add_product(by_logits, queue, &mut self.by_queries[first..])?;
            }
        }
        Ok(value / count as f64)
    }
}

/// The loss of one query and its derivative by the positive logit; replaces similarities by the derivatives by logits.
fn one(positive: f64, similarities: &mut [f64], temperature: f64) -> (f64, f64) {
    for value in similarities.iter_mut() {
        *value /= temperature;
    }
    if similarities.is_empty() {
        return (0.0, 0.0);
    }
    let of_negatives = softmax(similarities);
    let largest = positive.max(of_negatives);
    let total = largest + ((positive - largest).exp() + (of_negatives - largest).exp()).ln();
    let negatives = (of_negatives - total).exp();
    for value in similarities.iter_mut() {
        *value *= negatives;
    }
    (total - positive, (positive - total).exp_m1())
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter()
        .zip(right)
        .map(|(left, right)| left * right)
        .sum()
}
