//! The table for published values, and for extra entries of checkpoints.

use std::cell::RefCell;
use std::ffi::c_void;

use super::super::fake::Fake;
use super::super::seen::Published;
use super::super::stage::FakeRun;
use super::super::values::{FakeValue, FakeValueEntry, FakeValues};
use super::{refuse, stage};
use sconce_plugin_api::Point;
use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::{Keep, TensorAbi, ValuesTable, check_name};
use sconce_plugin_api::tensor::Tensor;

pub(super) static TABLE: ValuesTable = ValuesTable {
    set,
    set_tensor,
    get,
    remove,
};

fn values_of(stage: &FakeRun, keep: Keep) -> &RefCell<FakeValues> {
    if keep == Keep::Checkpoint {
        &stage.entries
    } else {
        &stage.values
    }
}

/// Publishes an entry; the error is the status and the message.
fn publish(
    stage: &FakeRun,
    keep: u32,
    name: Option<&str>,
    value: Result<FakeValue, String>,
) -> Result<(), (Status, String)> {
    let invalid = |message: String| (Status::INVALID, message);
    let unknown = || {
        (
            Status::UNSUPPORTED,
            format!("unknown place {keep} for values"),
        )
    };
    let keep = Keep::from_number(keep).ok_or_else(unknown)?;
    let name = name.ok_or_else(|| invalid("the name is not valid UTF-8".to_owned()))?;
    check_name("a published name", name).map_err(invalid)?;
    if keep == Keep::Checkpoint && stage.point() != Some(Point::BeforeSaveCheckpoint) {
        let point = stage.point().map_or("creation", Point::name);
        let message = format!(
            "nothing can be added to a checkpoint at `{point}`; it can at before_save_checkpoint"
        );
        return Err((Status::NOT_LEGAL_HERE, message));
    }
    let value = value.map_err(invalid)?;
    if let Some(at) = stage.place.get() {
        stage.seen.borrow_mut().published.push(Published {
            at,
            keep,
            name: name.to_owned(),
            json: match &value {
                FakeValue::Json(text) => serde_json::from_str(text).ok(),
                FakeValue::Tensor(_) => None,
            },
            tensor: match &value {
                FakeValue::Tensor(tensor) => Some((tensor.shape(), tensor.floats())),
                FakeValue::Json(_) => None,
            },
        });
    }
    values_of(stage, keep).borrow_mut().set(FakeValueEntry {
        name: name.into(),
        keep,
        is_own: true,
        value,
    });
    Ok(())
}

unsafe extern "C" fn set(
    context: *const c_void,
    keep: u32,
    name: TextAbi,
    json: TextAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is that of this call, for which name, text and error are borrowed.
    unsafe {
        let Some(stage) = stage(context) else {
            return Status::INVALID.0;
        };
        let value = match json.read() {
            Some(text) => serde_json::from_str::<serde::de::IgnoredAny>(text)
                .map(|_| FakeValue::Json(text.into()))
                .map_err(|error| format!("the value is not valid JSON: {error}")),
            None => Err("the value is not valid UTF-8".to_owned()),
        };
        match publish(stage, keep, name.read(), value) {
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
    // SAFETY: the context is that of this call, for which name, tensor and error are borrowed.
    unsafe {
        let (Some(stage), Some(tensor)) = (stage(context), tensor.as_ref()) else {
            return Status::INVALID.0;
        };
        let copy = match Tensor::borrowed(*tensor) {
            Ok(tensor) => Fake::copy_of(name.read().unwrap_or_default(), &tensor)
                .map(FakeValue::Tensor)
                .ok_or_else(|| "its elements are of an unknown type".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match publish(stage, keep, name.read(), copy) {
            Ok(()) => Status::OK.0,
            Err((status, message)) => refuse(error, status, &message),
        }
    }
}

unsafe extern "C" fn get(
    context: *const c_void,
    keep: u32,
    name: TextAbi,
    json: *mut TextAbi,
) -> u32 {
    // SAFETY: the context is that of this call, for which the name and room for one text are borrowed.
    let (stage, name, place) = unsafe { (stage(context), name.read(), json.as_mut()) };
    let (Some(stage), Some(name), Some(place)) = (stage, name, place) else {
        return Status::INVALID.0;
    };
    let keep = Keep::from_number(keep).unwrap_or(Keep::Run);
    // The text's address does not change until an entry of that name is set.
    match values_of(stage, keep).borrow().json(name) {
        Some(text) => {
            *place = TextAbi::new(text);
            Status::OK.0
        }
        None => Status::NOT_FOUND.0,
    }
}

unsafe extern "C" fn remove(context: *const c_void, name: TextAbi, _error: *mut ErrorAbi) -> u32 {
    // SAFETY: the context is that of this call, for which the name is borrowed.
    match unsafe { (stage(context), name.read()) } {
        (Some(stage), Some(name)) if stage.values.borrow_mut().remove(name) => Status::OK.0,
        (Some(_), Some(_)) => Status::NOT_FOUND.0,
        _ => Status::INVALID.0,
    }
}
