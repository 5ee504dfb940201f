//! What hooks can change at `before_epoch`, restored after an epoch has been reopened.

use candle_core::Tensor;
use sconce_plugin_api::Keep;

use crate::bridge::ValueContent;
use crate::checkpoint::PhaseState;
use crate::hook_id::HookId;
use crate::optim::Groups;
use crate::parameters::Parameter;
use crate::run::Trainer;

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

impl Trainer<'_> {
    pub(in crate::run) fn epoch_snapshot(&self) -> candle_core::Result<EpochSnapshot> {
        let parameters = self.task.parameters();
        let mut values = Vec::new();
        for keep in [Keep::Epoch, Keep::Run] {
            for (name, owner, value) in self.shared.values.of_kind(keep) {
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
            groups: self.shared.groups.borrow().clone(),
            accumulation: self.shared.accumulation.get(),
            metrics: self.shared.read_metrics().save(),
            values,
        })
    }

    pub(in crate::run) fn put_back(&mut self, snapshot: EpochSnapshot) -> candle_core::Result<()> {
        let parameters = self.task.parameters();
        for (parameter, tensor) in parameters.iter().zip(&snapshot.parameters) {
            parameter.var().set(tensor)?;
        }
        for (parameter, scale) in parameters.iter().zip(&snapshot.scales) {
            parameter.set_learning_rate_scale(*scale);
        }
        self.shared.set_groups(&snapshot.groups);
        self.shared.accumulation.set(snapshot.accumulation);
        self.shared.metrics.borrow_mut().restore(&snapshot.metrics);
        for (keep, name, owner, value) in snapshot.values {
            self.shared.values.set(&name, keep, owner, value);
        }
        Ok(())
    }
}
