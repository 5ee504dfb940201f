//! Metrics: what a pass is judged by beside its loss, from sums that batches add to.

mod classes;
mod config;
mod counts;
mod error;
mod exact;
mod numbers;
#[cfg(test)]
mod tests;

use candle_core::{D, DType, Result, Tensor, bail};

pub use classes::{Accuracy, Perplexity, TopK};
pub use config::{Average, MetricConfig, MetricKind};
pub use counts::{ConfusionMatrix, F1, Precision, Recall};
pub use error::Error;
pub use numbers::{BinaryAccuracy, Mae, R2, Rmse};

use crate::Targets;
use crate::loss::shapes::Rows;

/// A metric, or several that belong together.
///
/// Sums begin at 0 and are added to by each batch of a pass; batches may be of any sizes. Sums of
/// parts of a pass may be added to each other. A pass in which nothing counted has NaN, except where
/// a metric says otherwise.
pub trait Metric: Send {
    /// The metrics' names, always the same.
    fn names(&self) -> Vec<String>;

    /// How many sums there are behind them.
    fn sum_count(&self) -> usize;

    /// Adds what a batch contributes.
    ///
    /// # Errors
    ///
    /// Where outputs and targets don't belong together.
    fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()>;

    /// The metrics, in the order of their names.
    fn values(&self, sums: &[f64], values: &mut [f64]);
}

/// The metrics of a task, in their order; none names a value that another has.
///
/// # Errors
///
/// Where one does not belong to the targets, or two have a name in common.
pub fn build_all(
    configs: &[MetricConfig],
    targets: &Targets,
    ignore_index: Option<u32>,
) -> std::result::Result<Vec<Box<dyn Metric>>, Error> {
    let mut names: Vec<String> = Vec::new();
    let mut metrics = Vec::with_capacity(configs.len());
    for config in configs {
        let metric = config.build(targets, ignore_index)?;
        for name in metric.names() {
            if names.contains(&name) {
                return Err(Error::Doubled(name));
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

/// The first sum divided by the second, in the place of the only value.
fn ratio(sums: &[f64], values: &mut [f64], finish: impl Fn(f64) -> f64) {
    if let ([sum, count, ..], [value, ..]) = (sums, values) {
        *value = finish(sum / count);
    }
}

/// The rows that count, apart from the graph.
fn rows(outputs: &Tensor, targets: &Tensor, ignored: Option<u32>) -> Result<Rows> {
    let rows = Rows::new(&outputs.detach(), targets)?.without(ignored)?;
    rows.classes()?;
    Ok(rows)
}

/// Each row's class with the one that is predicted: that of the largest logit, of equal ones the first.
fn classified(rows: &Rows, classes: usize) -> Result<Vec<(usize, usize)>> {
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

/// All elements, row by row.
fn plain(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}
