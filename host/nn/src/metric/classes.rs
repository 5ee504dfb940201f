//! Metrics of logits against classes, as means over samples or positions.

use candle_core::{Result, Tensor};

use super::{Metric, add_to, plain, ratio, rows};

/// The share whose largest logit is at the target; the first of equal ones counts.
#[derive(Clone, Debug)]
pub struct Accuracy {
    top: TopK,
}

impl Accuracy {
    /// Without the targets that are `ignore_index`.
    pub fn new(ignore_index: Option<u32>) -> Accuracy {
        Accuracy {
            top: TopK::new(1, ignore_index),
        }
    }
}

impl Metric for Accuracy {
    fn names(&self) -> Vec<String> {
        vec!["accuracy".to_owned()]
    }

    fn sum_count(&self) -> usize {
        self.top.sum_count()
    }

    fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()> {
        self.top.add(outputs, targets, sums)
    }

    fn values(&self, sums: &[f64], values: &mut [f64]) {
        self.top.values(sums, values);
    }
}

/// The share whose target is among the k largest logits: `top5_accuracy` for k = 5. Of equal logits
/// the first are the larger ones; a target whose logit is NaN is missed.
#[derive(Clone, Debug)]
pub struct TopK {
    k: usize,
    ignore_index: Option<u32>,
}

impl TopK {
    /// Without the targets that are `ignore_index`.
    pub fn new(k: usize, ignore_index: Option<u32>) -> TopK {
        TopK { k, ignore_index }
    }
}

impl Metric for TopK {
    fn names(&self) -> Vec<String> {
        vec![format!("top{}_accuracy", self.k)]
    }

    /// Hits and rows.
    fn sum_count(&self) -> usize {
        2
    }

    fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()> {
        let rows = rows(outputs, targets, self.ignore_index)?;
        let classes = rows.classes()?;
        let logits = plain(&rows.logits)?;
        let of_rows = logits.chunks_exact(classes).zip(&rows.targets);
        let hits = of_rows.filter(|(row, target)| is_hit(row, **target as usize, self.k));
        add_to(sums, 0, hits.count() as f64);
        add_to(sums, 1, rows.targets.len() as f64);
        Ok(())
    }

    fn values(&self, sums: &[f64], values: &mut [f64]) {
        ratio(sums, values, |share| share);
    }
}

fn is_hit(row: &[f64], target: usize, k: usize) -> bool {
    let Some(&own) = row.get(target).filter(|own| !own.is_nan()) else {
        return false;
    };
    let is_before = |&(class, &logit): &(usize, &f64)| {
        // NaN is never beaten, as in PyTorch.
        logit.is_nan() || logit > own || (class < target && logit >= own)
    };
    row.iter().enumerate().filter(is_before).count() < k
}

/// The exponential of the mean cross entropy, without smoothing and class weights: among how many
/// equally likely classes a model that is as unsure would choose.
#[derive(Clone, Debug)]
pub struct Perplexity {
    ignore_index: Option<u32>,
}

impl Perplexity {
    /// Without the targets that are `ignore_index`.
    pub fn new(ignore_index: Option<u32>) -> Perplexity {
        Perplexity { ignore_index }
    }
}

impl Metric for Perplexity {
    fn names(&self) -> Vec<String> {
        vec!["perplexity".to_owned()]
    }

    /// The cross entropy's sum, and rows.
    fn sum_count(&self) -> usize {
        2
    }

    fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()> {
        let rows = rows(outputs, targets, self.ignore_index)?;
        let classes = rows.classes()?;
        let logits = plain(&rows.logits)?;
        for (row, &target) in logits.chunks_exact(classes).zip(&rows.targets) {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = row.iter().map(|logit| (logit - largest).exp()).sum();
            let own = row.get(target as usize).copied().unwrap_or(f64::NAN);
            add_to(sums, 0, sum.ln() + largest - own);
        }
        add_to(sums, 1, rows.targets.len() as f64);
        Ok(())
    }

    fn values(&self, sums: &[f64], values: &mut [f64]) {
        ratio(sums, values, f64::exp);
    }
}
