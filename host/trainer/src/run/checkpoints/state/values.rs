//! Values that hooks publish, and entries that they add, in checkpoints.

use candle_core::Tensor;
use sconce_plugin_api::Keep;
use serde_json::value::RawValue;

use crate::bridge::{BridgeState, ValueContent};
use crate::checkpoint::{Checkpoint, Lifetime, PublishedValue, Publisher, Section};
use crate::run::weights::swapped::Swapped;

/// The values that hooks keep for the run and the epoch, and the publishers of tensors. The tensors
/// themselves are added to `tensors`.
pub(in crate::run) fn published(
    shared: &BridgeState<'_>,
    swapped: Option<&Swapped>,
    tensors: &mut Vec<(String, Tensor)>,
) -> candle_core::Result<(Vec<PublishedValue>, Vec<Publisher>)> {
    let mut values = Vec::new();
    let mut publishers = Vec::new();
    for keep in Lifetime::ALL {
        for (name, owner, value) in shared.values.of_kind(keep.keep()) {
            let hook = shared.name_of(owner);
            match value {
                ValueContent::Json(text) => values.push(PublishedValue {
                    value: raw(&text)?,
                    name: name.into_string(),
                    hook,
                    keep,
                }),
                ValueContent::Tensor(tensor) => {
                    let real = swapped.and_then(|swapped| swapped.published(&name));
                    let tensor = real.cloned().unwrap_or(tensor);
                    tensors.push((Section::Published.full_name(&name), tensor));
                    publishers.push(Publisher {
                        name: name.into_string(),
                        hook,
                        keep,
                    });
                }
            }
        }
    }
    Ok((values, publishers))
}

/// The entries that hooks add to a checkpoint. Those that are tensors are added to `tensors`.
pub(in crate::run) fn extra_entries(
    shared: &BridgeState<'_>,
    tensors: &mut Vec<(String, Tensor)>,
) -> candle_core::Result<Vec<(String, Box<RawValue>)>> {
    let mut extra = Vec::new();
    for (name, _, value) in shared.checkpoint_entries.of_kind(Keep::Checkpoint) {
        match value {
            ValueContent::Json(text) => extra.push((name.into_string(), raw(&text)?)),
            ValueContent::Tensor(tensor) => {
                tensors.push((Section::Extra.full_name(&name), tensor));
            }
        }
    }
    Ok(extra)
}

/// Restores the values that hooks keep for the run and the epoch, and the extra entries. Values of hooks
/// unknown to the checkpoint are left as they are.
pub(in crate::run) fn restore_values(content: &Checkpoint, shared: &BridgeState<'_>) {
    let values = &shared.values;
    for keep in [Keep::Batch, Keep::Epoch, Keep::Run] {
        for (name, owner, _) in values.of_kind(keep) {
            let hook = shared.name_of(owner);
            if content.hook(&hook).is_some() {
                values.remove(&name);
            }
        }
    }
    let owner = |hook: &str| shared.hook_called(hook);
    let json = |value: &serde_json::value::RawValue| ValueContent::Json(value.get().into());
    for value in &content.header.values {
        let PublishedValue {
            name, hook, keep, ..
        } = value;
        values.set(name, keep.keep(), owner(hook), json(&value.value));
    }
    for Publisher { name, hook, keep } in &content.header.publishers {
        if let Some(tensor) = content.tensor(&Section::Published.full_name(name)) {
            let tensor = ValueContent::Tensor(tensor.clone());
            values.set(name, keep.keep(), owner(hook), tensor);
        }
    }
    let entries = &shared.checkpoint_entries;
    entries.forget(Keep::Checkpoint);
    for (name, value) in &content.header.extra {
        entries.set(name, Keep::Checkpoint, None, json(value));
    }
    for (name, tensor) in content.under(Section::Extra) {
        let tensor = ValueContent::Tensor(tensor.clone());
        entries.set(name, Keep::Checkpoint, None, tensor);
    }
}

/// Wraps a string that is known to be JSON.
fn raw(text: &str) -> candle_core::Result<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).map_err(candle_core::Error::wrap)
}
