//! `sconce.metrics/1`.

use sconce_plugin_api::Phase;
use sconce_plugin_api::abi::TextAbi;
use sconce_plugin_api::ext::{MetricAbi, Metrics, Refusal};

use crate::bridge::BridgeState;
use crate::bridge::witness::HookAction;

impl Metrics for BridgeState<'_> {
    fn count(&self, phase: u32) -> usize {
        let phase = Phase::from_number(phase);
        phase.map_or(0, |phase| self.metrics.borrow().of(phase).len())
    }

    fn at(&self, phase: u32, index: usize) -> Option<MetricAbi> {
        let phase = Phase::from_number(phase)?;
        let metrics = self.read_metrics();
        let (name, value) = metrics.of(phase).at(index)?;
        Some(MetricAbi {
            name: TextAbi::new(name),
            value,
        })
    }

    fn get(&self, phase: u32, name: &str) -> Option<f64> {
        self.read_metrics().of(Phase::from_number(phase)?).get(name)
    }

    fn publish(&self, name: &str, value: f64) -> Result<(), Refusal> {
        self.sees(&HookAction::Metric { name, value })
            .and_then(|()| self.publish_metric(name, value))
            .map_err(Refusal::invalid)
    }
}
