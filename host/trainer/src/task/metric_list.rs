//! The metrics of a supervised task, in their order.

use candle_core::{DType, Device, Result, Tensor};

use super::DeferredMetrics;
use crate::metric::Metric;

/// Metrics whose sums and values lie one after the other.
pub(super) struct MetricList {
    /// Each with its number of values.
    metrics: Vec<(Box<dyn Metric>, usize)>,
    names: Vec<String>,
}

impl MetricList {
    pub(super) fn new(metrics: Vec<Box<dyn Metric>>) -> MetricList {
        let counted = |metric: Box<dyn Metric>| {
            let count = metric.names().len();
            (metric, count)
        };
        MetricList {
            names: metrics.iter().flat_map(|metric| metric.names()).collect(),
            metrics: metrics.into_iter().map(counted).collect(),
        }
    }
}

impl DeferredMetrics for MetricList {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn sum_count(&self) -> usize {
        let counts = self.metrics.iter().map(|(metric, _)| metric.sum_count());
        counts.sum()
    }

    fn sums_on_device(&self, outputs: &Tensor, targets: &Tensor) -> Result<Option<Tensor>> {
        let mut all = Vec::with_capacity(self.metrics.len());
        for (metric, _) in &self.metrics {
            let Some(sums) = metric.sums_on_device(outputs, targets)? else {
                return Ok(None);
            };
            all.push(sums);
        }
        Ok(Some(match all.as_slice() {
            [] => Tensor::zeros(0, DType::F64, &Device::Cpu)?,
            [only] => only.clone(),
            all => Tensor::cat(all, 0)?,
        }))
    }

    fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()> {
        let mut rest = sums;
        for (metric, _) in &self.metrics {
            let (own, others) = parts(rest, metric.sum_count());
            metric.add(outputs, targets, own)?;
            rest = others;
        }
        Ok(())
    }

    fn merge(&self, sums: &mut [f64], batch: &[f64]) {
        let (mut sums, mut batch) = (sums, batch);
        for (metric, _) in &self.metrics {
            let count = metric.sum_count().min(batch.len());
            let (own, others) = parts(sums, count);
            let (added, rest) = batch.split_at(count);
            metric.merge(own, added);
            (sums, batch) = (others, rest);
        }
    }

    fn values(&self, sums: &[f64], _samples: f64, values: &mut [f64]) {
        let (mut sums, mut values) = (sums, values);
        for (metric, width) in &self.metrics {
            let count = metric.sum_count().min(sums.len());
            let (own, rest) = sums.split_at(count);
            let (slots, others) = parts(values, *width);
            metric.values(own, slots);
            (sums, values) = (rest, others);
        }
    }
}

/// Splits off the first `count` elements, or all if there are fewer.
fn parts(all: &mut [f64], count: usize) -> (&mut [f64], &mut [f64]) {
    let count = count.min(all.len());
    all.split_at_mut(count)
}
