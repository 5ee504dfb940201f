//! Training settings that hooks have changed, in checkpoints. All others follow the manifest.

use sconce_base::exact::Exact;
use sconce_lifecycle::Position;

use super::tensors::saved;
use crate::bridge::BridgeState;
use crate::checkpoint::{Accumulation, ChangedSettings, CheckpointHeader};
use crate::optim::ParameterGroup;
use crate::parameters::Parameters;

/// The settings that hooks have changed.
pub(in crate::run) fn changed_settings(
    shared: &BridgeState<'_>,
    parameters: &Parameters,
    position: &Position,
) -> ChangedSettings {
    let groups = shared.optimizer.groups.borrow();
    let momentum = |group: &ParameterGroup| Some((group.name.to_string(), Exact(group.momentum?)));
    let decay = |group: &ParameterGroup| {
        let is_changed = group.weight_decay.to_bits() != group.configured_decay.to_bits();
        is_changed.then(|| (group.name.to_string(), Exact(group.weight_decay)))
    };
    let scales = saved(parameters).map(|entry| (entry.name().to_owned(), Exact(entry.share())));
    let update = &position.update_batches;
    let accumulation = |batches| Accumulation {
        batches,
        update: (update.start, update.end),
    };
    ChangedSettings {
        momenta: groups.iter().filter_map(momentum).collect(),
        weight_decays: groups.iter().filter_map(decay).collect(),
        shares: scales
            .filter(|(_, share)| (share.0 - 1.0).abs() > 0.0)
            .collect(),
        accumulation: shared.optimizer.accumulation.get().map(accumulation),
    }
}

/// Restores the settings that hooks had changed.
pub(in crate::run) fn restore_settings(
    settings: &ChangedSettings,
    shared: &BridgeState<'_>,
    parameters: &Parameters,
    position: &mut Position,
) {
    let mut groups = shared.optimizer.groups.borrow_mut();
    groups.set_momentum(None);
    for (name, momentum) in &settings.momenta {
        // Groups that no longer exist are skipped.
        drop(groups.set_momentum_of(name, momentum.0));
    }
    groups.reset_weight_decay();
    for (name, decay) in &settings.weight_decays {
        drop(groups.set_weight_decay_of(name, decay.0));
    }
    for entry in parameters.iter() {
        let mut scales = settings.shares.iter();
        let known = scales.find(|(name, _)| name == entry.name());
        entry.set_learning_rate_scale(known.map_or(1.0, |(_, share)| share.0));
    }
    let accumulation = settings.accumulation.as_ref();
    shared
        .optimizer
        .accumulation
        .set(accumulation.map(|accumulation| accumulation.batches));
    let (begin, end) = accumulation.map_or((0, 0), |accumulation| accumulation.update);
    position.update_batches = begin..end;
}

/// The learning rates for a checkpoint.
pub(in crate::run) fn learning_rates(shared: &BridgeState<'_>) -> Vec<(String, Exact)> {
    let groups = shared.optimizer.groups.borrow();
    groups
        .iter()
        .map(|group| (group.name.to_string(), Exact(group.learning_rate)))
        .collect()
}

/// Restores the learning rates.
pub(in crate::run) fn restore_learning_rates(header: &CheckpointHeader, shared: &BridgeState<'_>) {
    let mut groups = shared.optimizer.groups.borrow_mut();
    for (name, rate) in &header.learning_rates {
        // Groups that no longer exist are skipped.
        drop(groups.set_learning_rate_of(name, rate.0));
    }
    shared
        .optimizer
        .learning_rate
        .set(groups.default().learning_rate);
}
