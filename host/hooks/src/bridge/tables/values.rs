//! `sconce.values/1`: publishing by name, and the extra entries of checkpoints.

use std::ffi::c_void;

use candle_core::{Device, Shape, Tensor};
use sconce_plugin_api::Point;
use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::{Keep, TensorAbi, ValuesTable, check_name};
use sconce_plugin_api::tensor::{self, BrainHalf, Element, Half};

use crate::bridge::entry::{refuse, shared};
use crate::bridge::shared::BridgeState;
use crate::bridge::values::{PublishedValues, ValueContent};
use crate::bridge::witness::HookAction;

pub(super) static TABLE: ValuesTable = ValuesTable {
    set,
    set_tensor,
    get,
    remove,
};

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

/// Publishes a value; the error is the status and the message.
fn publish(
    shared: &BridgeState<'_>,
    keep: u32,
    name: Option<&str>,
    value: impl FnOnce() -> Result<ValueContent, String>,
) -> Result<(), (Status, String)> {
    let invalid = |message: String| (Status::INVALID, message);
    let keep = Keep::from_number(keep).ok_or_else(|| {
        let message = format!("this host does not know the place {keep} for values; update it");
        (Status::UNSUPPORTED, message)
    })?;
    let name = name.ok_or_else(|| invalid("the name is not valid UTF-8".to_owned()))?;
    check_name("a published name", name).map_err(invalid)?;
    let values =
        values_to_set(shared, keep).map_err(|message| (Status::NOT_LEGAL_HERE, message))?;
    let value = value().map_err(invalid)?;
    let json = match &value {
        ValueContent::Json(text) => Some(&**text),
        ValueContent::Tensor(_) => None,
    };
    shared
        .sees(&HookAction::Value { name, json })
        .map_err(invalid)?;
    shared.set_value(values, name, keep, value);
    Ok(())
}

unsafe extern "C" fn set(
    context: *const c_void,
    keep: u32,
    name: TextAbi,
    json: TextAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which name, text
    // and error are borrowed.
    unsafe {
        let Some(shared) = shared(context) else {
            return Status::INVALID.0;
        };
        let value = || {
            let text = json.read().ok_or("the value is not valid UTF-8")?;
            let parsed = serde_json::from_str::<serde::de::IgnoredAny>(text);
            parsed.map_err(|error| format!("the value is not valid JSON: {error}"))?;
            Ok(ValueContent::Json(text.into()))
        };
        match publish(shared, keep, name.read(), value) {
            Ok(()) => Status::OK.0,
            Err((status, message)) => refuse(error, status, &message),
        }
    }
}

unsafe extern "C" fn set_tensor(
    context: *const c_void,
    keep: u32,
    name: TextAbi,
    tensor: *const TensorAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which name, tensor
    // and error are borrowed; the plugin promises that the tensor's memory is readable for the
    // call.
    unsafe {
        let (Some(shared), Some(tensor)) = (shared(context), tensor.as_ref()) else {
            return Status::INVALID.0;
        };
        let value = || copied(tensor).map(ValueContent::Tensor);
        match publish(shared, keep, name.read(), value) {
            Ok(()) => Status::OK.0,
            Err((status, message)) => refuse(error, status, &message),
        }
    }
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
unsafe fn copied(abi: &TensorAbi) -> Result<Tensor, String> {
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

unsafe extern "C" fn get(
    context: *const c_void,
    keep: u32,
    name: TextAbi,
    json: *mut TextAbi,
) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the name and
    // memory for one text are borrowed.
    let (shared, name, json) = unsafe { (shared(context), name.read(), json.as_mut()) };
    let (Some(shared), Some(name), Some(json)) = (shared, name, json) else {
        return Status::INVALID.0;
    };
    let values = match Keep::from_number(keep) {
        Some(Keep::Checkpoint) => &shared.checkpoint_entries,
        _ => &shared.values,
    };
    match values.json(name) {
        Some(text) => {
            *json = text;
            Status::OK.0
        }
        None => Status::NOT_FOUND.0,
    }
}

unsafe extern "C" fn remove(context: *const c_void, name: TextAbi, _error: *mut ErrorAbi) -> u32 {
    // SAFETY: the context is the one that the host handed out for this call, for which the name is
    // borrowed.
    let (shared, name) = unsafe { (shared(context), name.read()) };
    match (shared, name) {
        (Some(shared), Some(name)) if shared.remove_value(name) => Status::OK.0,
        (Some(_), Some(_)) => Status::NOT_FOUND.0,
        _ => Status::INVALID.0,
    }
}
