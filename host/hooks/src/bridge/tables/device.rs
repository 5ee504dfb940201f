//! `sconce.device/1`: the device that computes, and tensors where they are on it.

use sconce_ops::{device, device_address};
use sconce_plugin_api::abi::{Status, TextAbi};
use sconce_plugin_api::ext::{Collection, Device, DeviceAbi, Refusal, TensorAbi, Tensors};

use super::tensors::{codes, known, reach};
use crate::bridge::shared::BridgeState;

impl Device for BridgeState<'_> {
    fn facts(&self) -> Result<DeviceAbi, Refusal> {
        Ok(of_run(self))
    }

    fn tensor(&self, collection: u32, index: usize, writable: bool) -> Result<TensorAbi, Refusal> {
        let known = known(collection)?;
        let is_elsewhere = |tensor: candle_core::Tensor| !tensor.device().is_cpu();
        if !BridgeState::tensor(self, known, index).is_some_and(is_elsewhere) {
            return self.at(collection, index, writable);
        }
        if writable && let Some(refusal) = self.why_not_lent(known, index) {
            return Err(refusal.into());
        }
        match lend(self, (known, index), writable) {
            Ok(lent) => lent.ok_or(Refusal::NOT_FOUND),
            Err(source) => {
                let message = format!("can't lend the tensor: {source}");
                Err(Refusal::new(Status::ERROR, message))
            }
        }
    }
}

/// The device of the run.
fn of_run(shared: &BridgeState<'_>) -> DeviceAbi {
    let Some(device) = shared.tensors.device() else {
        return DeviceAbi::CPU;
    };
    let Some(handles) = device_address::handles(&device) else {
        return DeviceAbi::CPU;
    };
    let facts = shared.device.facts.get_or_init(|| device::facts(&device));
    let (capability_major, capability_minor) =
        facts.as_ref().map_or((0, 0), |facts| facts.capability);
    DeviceAbi {
        device_type: 2,
        device_id: i32::try_from(handles.ordinal).unwrap_or(i32::MAX),
        capability_major,
        capability_minor,
        name: facts
            .as_ref()
            .map_or(TextAbi::EMPTY, |facts| TextAbi::new(&facts.name)),
        stream: handles.stream,
        context: handles.context,
    }
}

/// A view of a tensor on the device; what hooks have written to its copy goes there first.
fn lend(
    shared: &BridgeState<'_>,
    (collection, index): (Collection, usize),
    writable: bool,
) -> candle_core::Result<Option<TensorAbi>> {
    let tensor = if writable {
        shared.writable_tensor(collection, index)?
    } else {
        shared.tensor(collection, index)
    };
    let Some(tensor) = tensor else {
        return Ok(None);
    };
    let Some((type_code, type_bits)) = codes(tensor.dtype()) else {
        candle_core::bail!("elements of type {:?} don't cross", tensor.dtype());
    };
    shared.device.copies.flush(collection)?;
    if writable {
        // What is written in the stream's order is in no copy made before.
        (shared.device.copies).forget((collection, index));
    }
    let mut flags = if writable { TensorAbi::WRITABLE } else { 0 };
    if shared.is_buffer(collection, index) {
        flags |= TensorAbi::BUFFER;
    }
    let layout = tensor.layout();
    Ok(Some(TensorAbi {
        data: device_address::address(&tensor)?,
        byte_length: reach(layout) * u64::from(type_bits) / 8,
        shape: layout.dims().as_ptr().cast(),
        strides: layout.stride().as_ptr().cast(),
        name: shared.tensor_name(collection, index),
        flags,
        dimensions: layout.dims().len() as u32,
        device_type: 2,
        device_id: of_run(shared).device_id,
        type_code,
        type_bits,
        type_lanes: 1,
    }))
}
