//! `sconce.metrics/1`: reading and publishing metrics, for every phase.

use super::extension;
use crate::abi::{Refusal, TextAbi};

/// One metric of a phase. Frozen.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MetricAbi {
    /// Name; valid until the end of the run.
    pub name: TextAbi,
    /// Current value.
    pub value: f64,
}

/// Metrics of the phase in progress are means over the samples so far; those of another phase are the values at the end of its last
/// pass.
#[extension("sconce.metrics/1")]
pub trait Metrics {
    /// Number of metrics of the phase with this number.
    #[ahead]
    fn count(&self, phase: u32) -> usize;

    /// The metric at an index, in order of first appearance.
    #[ahead]
    fn at(&self, phase: u32, index: usize) -> Option<MetricAbi>;

    /// Value of the metric with this name.
    #[ahead]
    fn get(&self, phase: u32, name: &str) -> Option<f64>;

    /// Sets a metric of the current phase, visible until the phase's next pass begins.
    #[wrapped]
    #[posted]
    #[changes]
    fn publish(&self, name: &str, value: f64) -> Result<(), Refusal>;
}
