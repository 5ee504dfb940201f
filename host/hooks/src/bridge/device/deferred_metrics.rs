//! Metrics of batches whose results are read from a device later.

use candle_core::{Result, Tensor};

/// The metrics of a task, apart from it: they are computed when somebody reads them, be it during a call of a hook.
///
/// All must agree with the task's own methods of the same names.
pub trait DeferredMetrics {
    /// Names of the metrics other than `loss`.
    fn names(&self) -> &[String];

    /// Number of sums from which the metrics are computed.
    fn sum_count(&self) -> usize;

    /// A batch's sums, computed on the outputs' device without waiting for it: a vector of `f64`. `None` if a metric can
    /// only be computed on the host.
    ///
    /// # Errors
    ///
    /// If outputs and targets do not fit each other.
    fn sums_on_device(&self, outputs: &Tensor, targets: &Tensor) -> Result<Option<Tensor>>;

    /// Adds a batch to the sums, on the host.
    ///
    /// # Errors
    ///
    /// If outputs and targets do not fit each other.
    fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()>;

    /// Adds a batch's sums to those of the batches before it.
    fn merge(&self, sums: &mut [f64], batch: &[f64]);

    /// Computes the metrics from the sums over `samples` samples.
    fn values(&self, sums: &[f64], samples: f64, values: &mut [f64]);
}
