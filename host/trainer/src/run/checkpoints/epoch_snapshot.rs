//! What hooks can change at `before_epoch`, restored after an epoch has been reopened.

use candle_core::Tensor;
use sconce_plugin_api::Keep;

use crate::bridge::{BridgeState, ValueContent};
use crate::checkpoint::PhaseState;
use crate::hook_id::HookId;
use crate::optim::Groups;
use crate::parameters::{Parameter, Parameters};

/// What hooks can change in a run at `before_epoch`, apart from its position.
pub struct EpochSnapshot {
    parameters: Vec<Tensor>,
    /// Learning rate scales of parameters; 0 if frozen.
    scales: Vec<f64>,
    groups: Groups,
    accumulation: Option<u64>,
    metrics: Vec<PhaseState>,
    values: Vec<(Keep, Box<str>, Option<HookId>, ValueContent)>,
}

impl EpochSnapshot {
    /// Copies what hooks can change.
    pub(in crate::run) fn take(
        parameters: &Parameters,
        shared: &BridgeState<'_>,
    ) -> candle_core::Result<EpochSnapshot> {
        let mut values = Vec::new();
        for keep in [Keep::Epoch, Keep::Run] {
            for (name, owner, value) in shared.values.of_kind(keep) {
                let value = match value {
                    ValueContent::Tensor(tensor) => ValueContent::Tensor(tensor.copy()?),
                    json @ ValueContent::Json(_) => json,
                };
                values.push((keep, name, owner, value));
            }
        }
        Ok(EpochSnapshot {
            scales: parameters.iter().map(Parameter::share).collect(),
            parameters: parameters
                .iter()
                .map(|parameter| parameter.tensor().copy())
                .collect::<candle_core::Result<_>>()?,
            groups: shared.optimizer.groups.borrow().clone(),
            accumulation: shared.optimizer.accumulation.get(),
            metrics: shared.read_metrics().save(),
            values,
        })
    }

    /// Restores it.
    pub(in crate::run) fn put_back(
        self,
        parameters: &Parameters,
        shared: &BridgeState<'_>,
    ) -> candle_core::Result<()> {
        for (parameter, tensor) in parameters.iter().zip(&self.parameters) {
            parameter.var().set(tensor)?;
        }
        for (parameter, scale) in parameters.iter().zip(&self.scales) {
            parameter.set_learning_rate_scale(*scale);
        }
        shared.set_groups(&self.groups);
        shared.optimizer.accumulation.set(self.accumulation);
        shared.metrics.borrow_mut().restore(&self.metrics);
        for (keep, name, owner, value) in self.values {
            shared.values.set(&name, keep, owner, value);
        }
        Ok(())
    }
}
