//! Metrics of a pass in addition to its loss, computed from sums over batches.

mod average;
mod bits_per_byte;
mod classes;
mod config;
mod counts;
mod error;
mod exact;
mod numbers;
mod on_device;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use candle_core::{D, DType, Result, Tensor, bail};

pub use average::Average;
pub use bits_per_byte::BitsPerByte;
pub use classes::{Accuracy, Perplexity, TopK};
pub use config::{MetricConfig, MetricKind};
pub use counts::{ConfusionMatrix, F1, Precision, Recall};
pub use error::MetricError;
pub use numbers::{BinaryAccuracy, Mae, R2, Rmse};

use sconce_ops::device::copy_to_host;

use crate::Targets;
use crate::loss::shapes::LogitRows;

/// A metric, or several that are computed together.
///
/// Sums start at 0 and each batch of a pass adds to them; batches may differ in size. Sums over parts
/// of a pass can be added up. The values are NaN for a pass in which nothing counted, unless a metric
/// says otherwise.
pub trait Metric: Send + Sync {
    /// Returns the metrics' names, always the same.
    fn names(&self) -> Vec<String>;

    /// Returns the number of sums from which the values are computed.
    fn sum_count(&self) -> usize;

    /// Adds a batch to the sums.
    ///
    /// # Errors
    ///
    /// If outputs and targets do not fit each other.
    fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()>;

    /// Returns a batch's sums, a vector of `f64`, computed by operations on the outputs' device, so that nobody has to wait
    /// for it. Counts are those of [`add`](Metric::add); other sums may differ by rounding. `None`, the default: only the
    /// host can compute them.
    ///
    /// Target classes must have been checked to be classes of the outputs.
    ///
    /// # Errors
    ///
    /// If outputs and targets do not fit each other.
    fn sums_on_device(&self, _outputs: &Tensor, _targets: &Tensor) -> Result<Option<Tensor>> {
        Ok(None)
    }

    /// Adds a batch's sums to those of the batches before it; by default each to its own.
    fn merge(&self, sums: &mut [f64], batch: &[f64]) {
        for (sum, batch) in sums.iter_mut().zip(batch) {
            *sum += batch;
        }
    }

    /// Computes the values from the sums, in the order of the names.
    fn values(&self, sums: &[f64], values: &mut [f64]);
}

/// How much targets count in metrics.
#[derive(Clone, Debug, Default)]
pub struct Counting {
    /// Target that doesn't count.
    pub ignored: Option<u32>,
    /// Number of bytes of text that each class stands for, by its index; none where classes are not text.
    pub bytes: Option<Arc<[u32]>>,
}

/// Builds the metrics of a task, in their order, and checks that their names are unique.
///
/// # Errors
///
/// If one does not fit the targets, or two have a name in common.
pub fn build_all(
    configs: &[MetricConfig],
    targets: &Targets,
    counting: &Counting,
) -> std::result::Result<Vec<Box<dyn Metric>>, MetricError> {
    let mut names: Vec<String> = Vec::new();
    let mut metrics = Vec::with_capacity(configs.len());
    for config in configs {
        let metric = config.build(targets, counting)?;
        for name in metric.names() {
            if names.contains(&name) {
                return Err(MetricError::Doubled(name));
            }
            names.push(name);
        }
        metrics.push(metric);
    }
    Ok(metrics)
}

/// Adds to the sum at `index`.
fn add_to(sums: &mut [f64], index: usize, value: f64) {
    if let Some(sum) = sums.get_mut(index) {
        *sum += value;
    }
}

/// Writes the first sum divided by the second to the only value.
fn ratio(sums: &[f64], values: &mut [f64], finish: impl Fn(f64) -> f64) {
    if let ([sum, count, ..], [value, ..]) = (sums, values) {
        *value = finish(sum / count);
    }
}

/// Returns the rows that count, detached from the graph.
fn rows(outputs: &Tensor, targets: &Tensor, ignored: Option<u32>) -> Result<LogitRows> {
    let rows = LogitRows::new(&outputs.detach(), targets)?.without(ignored)?;
    rows.classes()?;
    Ok(rows)
}

/// Returns logits (rows, classes) and the target of each row; `None` where it doesn't count. As many logits as a language model's
/// are not copied without those that don't.
fn counted(
    outputs: &Tensor,
    targets: &Tensor,
    ignored: Option<u32>,
) -> Result<(Tensor, Vec<Option<u32>>)> {
    let LogitRows { logits, targets } = LogitRows::new(&outputs.detach(), targets)?;
    let is_counted = |target: &u32| Some(*target) != ignored;
    let rows = LogitRows {
        logits: logits.clone(),
        targets: targets.iter().copied().filter(is_counted).collect(),
    };
    rows.classes()?;
    let targets = targets
        .into_iter()
        .map(|target| Some(target).filter(is_counted));
    Ok((logits, targets.collect()))
}

/// Returns (target, prediction) for each row; the first of equal logits is the largest.
fn classified(rows: &LogitRows, classes: usize) -> Result<Vec<(usize, usize)>> {
    let found = rows.logits.dim(1)?;
    if found != classes {
        bail!("outputs of {found} classes, where the data has {classes}");
    }
    if rows.targets.is_empty() {
        return Ok(Vec::new());
    }
    let predicted: Vec<u32> = rows.logits.argmax(D::Minus1)?.to_vec1()?;
    let pairs = rows.targets.iter().zip(predicted);
    Ok(pairs
        .map(|(&target, predicted)| (target as usize, predicted as usize))
        .collect())
}

/// Returns all elements in row-major order.
fn plain(tensor: &Tensor) -> Result<Vec<f64>> {
    let tensor = copy_to_host(tensor)?;
    tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}
