//! Metrics of logits against classes, as means over samples or positions.

use candle_core::{Result, Tensor};
use sconce_ops::measures;

use super::{Metric, add_to, counted, on_device, ratio};

/// Fraction of rows with the largest logit at the target; the first of equal logits is the largest.
#[derive(Clone, Debug)]
pub struct Accuracy {
    top: TopK,
}

impl Accuracy {
    /// Creates the metric; targets equal to `ignore_index` do not count.
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

    fn sums_on_device(&self, outputs: &Tensor, targets: &Tensor) -> Result<Option<Tensor>> {
        self.top.sums_on_device(outputs, targets)
    }

    fn values(&self, sums: &[f64], values: &mut [f64]) {
        self.top.values(sums, values);
    }
}

/// Fraction of rows with the target among the k largest logits: `top5_accuracy` for k = 5. Of equal
/// logits, earlier ones rank higher; a target whose logit is NaN is a miss.
#[derive(Clone, Debug)]
pub struct TopK {
    k: usize,
    ignore_index: Option<u32>,
}

impl TopK {
    /// Creates the metric; targets equal to `ignore_index` do not count.
    pub fn new(k: usize, ignore_index: Option<u32>) -> TopK {
        TopK { k, ignore_index }
    }
}

impl Metric for TopK {
    fn names(&self) -> Vec<String> {
        vec![format!("top{}_accuracy", self.k)]
    }

    /// Number of hits and number of rows.
    fn sum_count(&self) -> usize {
        2
    }

    fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()> {
        let (logits, targets) = counted(outputs, targets, self.ignore_index)?;
        // NaN ranks above all numbers, as in PyTorch.
        let before = measures::before_targets(&logits, &targets)?;
        let hits = before.iter().flatten();
        let hits = hits.filter(|before| (**before as usize) < self.k);
        add_to(sums, 0, hits.count() as f64);
        add_to(sums, 1, targets.iter().flatten().count() as f64);
        Ok(())
    }

    fn sums_on_device(&self, outputs: &Tensor, targets: &Tensor) -> Result<Option<Tensor>> {
        on_device::hits(outputs, targets, self.k, self.ignore_index).map(Some)
    }

    fn values(&self, sums: &[f64], values: &mut [f64]) {
        ratio(sums, values, |share| share);
    }
}

/// Exponential of the mean cross entropy, without smoothing and class weights: the number of equally
/// likely classes that would leave a model as uncertain.
#[derive(Clone, Debug)]
pub struct Perplexity {
    ignore_index: Option<u32>,
}

impl Perplexity {
    /// Creates the metric; targets equal to `ignore_index` do not count.
    pub fn new(ignore_index: Option<u32>) -> Perplexity {
        Perplexity { ignore_index }
    }
}

impl Metric for Perplexity {
    fn names(&self) -> Vec<String> {
        vec!["perplexity".to_owned()]
    }

    /// Sum of the cross entropy and number of rows.
    fn sum_count(&self) -> usize {
        2
    }

    fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()> {
        let (logits, targets) = counted(outputs, targets, self.ignore_index)?;
        for entropy in measures::row_cross_entropies(&logits, &targets)? {
            add_to(sums, 0, entropy);
        }
        add_to(sums, 1, targets.iter().flatten().count() as f64);
        Ok(())
    }

    fn sums_on_device(&self, outputs: &Tensor, targets: &Tensor) -> Result<Option<Tensor>> {
        on_device::cross_entropies(outputs, targets, self.ignore_index).map(Some)
    }

    fn values(&self, sums: &[f64], values: &mut [f64]) {
        ratio(sums, values, f64::exp);
    }
}
