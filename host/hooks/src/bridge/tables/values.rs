//! `sconce.values/1`: publishing by name, and the extra entries of checkpoints.

use candle_core::{Device, Shape, Tensor};
use sconce_plugin_api::Point;
use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{Keep, Refusal, TensorAbi, Values, check_name};
use sconce_plugin_api::tensor::{self, BrainHalf, Element, Half};

use crate::bridge::shared::BridgeState;
use crate::bridge::values::{PublishedValues, ValueContent};
use crate::bridge::witness::HookAction;

impl Values for BridgeState<'_> {
    fn set(&self, keep: u32, name: &str, json: &str) -> Result<(), Refusal> {
        publish(self, keep, name, || {
            let parsed = serde_json::from_str::<serde::de::IgnoredAny>(json);
            parsed.map_err(|error| format!("the value is not valid JSON: {error}"))?;
            Ok(ValueContent::Json(json.into()))
        })
    }

    unsafe fn set_tensor(&self, keep: u32, name: &str, tensor: &TensorAbi) -> Result<(), Refusal> {
        publish(self, keep, name, || {
            // SAFETY: guaranteed by the caller.
            unsafe { copied(tensor) }.map(ValueContent::Tensor)
        })
    }

    fn get(&self, keep: u32, name: &str) -> Option<&str> {
        let values = match Keep::from_number(keep) {
            Some(Keep::Checkpoint) => &self.checkpoint_entries,
            _ => &self.values,
        };
        // SAFETY: the text stays where it is until a value of this name is set again, as the extension says.
        unsafe { values.json(name)?.read() }
    }

    fn remove(&self, name: &str) -> Result<(), Refusal> {
        let was_there = self.remove_value(name);
        was_there.then_some(()).ok_or(Refusal::NOT_FOUND)
    }
}

/// Store for entries of a kind, or the reason why they can't be set now.
fn values_to_set<'a>(
    shared: &'a BridgeState<'_>,
    keep: Keep,
) -> Result<&'a PublishedValues, String> {
    if keep != Keep::Checkpoint {
        return Ok(&shared.values);
    }
    if shared.point() == Some(Point::BeforeSaveCheckpoint) {
        return Ok(&shared.checkpoint_entries);
    }
    let point = shared.point().map_or("creation", Point::name);
    Err(format!(
        "nothing can be added to a checkpoint at `{point}`; it can at before_save_checkpoint"
    ))
}

/// Publishes a value.
fn publish(
    shared: &BridgeState<'_>,
    keep: u32,
    name: &str,
    value: impl FnOnce() -> Result<ValueContent, String>,
) -> Result<(), Refusal> {
    let keep = Keep::from_number(keep).ok_or_else(|| {
        let message = format!("this host does not know the place {keep} for values; update it");
        Refusal::new(Status::UNSUPPORTED, message)
    })?;
    check_name("a published name", name).map_err(Refusal::invalid)?;
    let values = values_to_set(shared, keep)
        .map_err(|message| Refusal::new(Status::NOT_LEGAL_HERE, message))?;
    let value = value().map_err(Refusal::invalid)?;
    let json = match &value {
        ValueContent::Json(text) => Some(&**text),
        ValueContent::Tensor(_) => None,
    };
    shared
        .sees(&HookAction::Value { name, json })
        .map_err(Refusal::invalid)?;
    shared.set_value(values, name, keep, value);
    Ok(())
}

/// What is wrong with elements of no known type.
const UNKNOWN: &str = "its elements are of a type that this host does not know";

/// A plugin's tensor, whose elements lie where it says and are of a known type.
///
/// # Errors
///
/// What is wrong with it.
///
/// # Safety
///
/// The shape, strides and data that `abi` points to must be readable as long as it is borrowed.
pub unsafe fn readable(abi: &TensorAbi) -> Result<tensor::Tensor<'_>, String> {
    // SAFETY: the caller promises that everything `abi` points to is readable.
    let tensor = unsafe { tensor::Tensor::borrowed(*abi) }.map_err(|error| error.to_string())?;
    match tensor.dtype() {
        Some(_) => Ok(tensor),
        None => Err(UNKNOWN.to_owned()),
    }
}

/// Copies a plugin's tensor.
///
/// # Safety
///
/// As for [`readable`], during the call.
pub(super) unsafe fn copied(abi: &TensorAbi) -> Result<Tensor, String> {
    // SAFETY: guaranteed by the caller.
    let tensor = unsafe { readable(abi) }?;
    match tensor.dtype() {
        Some(tensor::DType::F32) => with_elements::<f32, _>(&tensor, |x| x),
        Some(tensor::DType::F64) => with_elements::<f64, _>(&tensor, |x| x),
        Some(tensor::DType::F16) => with_elements(&tensor, |x: Half| half::f16::from_bits(x.0)),
        Some(tensor::DType::Bf16) => {
            with_elements(&tensor, |x: BrainHalf| half::bf16::from_bits(x.0))
        }
        Some(tensor::DType::I64) => with_elements::<i64, _>(&tensor, |x| x),
        Some(tensor::DType::U32) => with_elements::<u32, _>(&tensor, |x| x),
        Some(tensor::DType::U8) => with_elements::<u8, _>(&tensor, |x| x),
        _ => Err(UNKNOWN.to_owned()),
    }
}

fn with_elements<T: Element, U: candle_core::WithDType>(
    tensor: &tensor::Tensor<'_>,
    convert: impl Fn(T) -> U,
) -> Result<Tensor, String> {
    let elements = (tensor.to_contiguous::<T>()).map_err(|error| error.to_string())?;
    let elements: Vec<U> = elements.iter().copied().map(convert).collect();
    let shape: Vec<usize> = tensor.shape().iter().map(|&size| size as usize).collect();
    Tensor::from_vec(elements, Shape::from(shape), &Device::Cpu).map_err(|error| error.to_string())
}
