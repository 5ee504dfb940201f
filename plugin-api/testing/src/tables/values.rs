//! Published values, and extra entries of checkpoints.

use std::cell::RefCell;

use sconce_plugin_api::Point;
use sconce_plugin_api::abi::{Status, TextAbi};
use sconce_plugin_api::ext::{Keep, Refusal, TensorAbi, Values, check_name};
use sconce_plugin_api::tensor::Tensor;

use super::super::fake::Fake;
use super::super::seen::Published;
use super::super::stage::FakeRun;
use super::super::values::{FakeValue, FakeValueEntry, FakeValues};

impl Values for FakeRun {
    fn set(&self, keep: u32, name: &str, json: &str) -> Result<(), Refusal> {
        let value = serde_json::from_str::<serde::de::IgnoredAny>(json)
            .map(|_| FakeValue::Json(json.into()))
            .map_err(|error| format!("the value is not valid JSON: {error}"));
        publish(self, keep, name, value)
    }

    unsafe fn set_tensor(&self, keep: u32, name: &str, tensor: &TensorAbi) -> Result<(), Refusal> {
        // SAFETY: guaranteed by the caller.
        let copy = match unsafe { Tensor::borrowed(*tensor) } {
            Ok(tensor) => Fake::copy_of(name, &tensor)
                .map(FakeValue::Tensor)
                .ok_or_else(|| "its elements are of an unknown type".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        publish(self, keep, name, copy)
    }

    fn get(&self, keep: u32, name: &str) -> Option<&str> {
        let keep = Keep::from_number(keep).unwrap_or(Keep::Run);
        let text = TextAbi::new(values_of(self, keep).borrow().json(name)?);
        // SAFETY: the text's address does not change until an entry of that name is set.
        unsafe { text.read() }
    }

    fn remove(&self, name: &str) -> Result<(), Refusal> {
        let was_there = self.values.borrow_mut().remove(name);
        was_there.then_some(()).ok_or(Refusal::NOT_FOUND)
    }
}

fn values_of(stage: &FakeRun, keep: Keep) -> &RefCell<FakeValues> {
    if keep == Keep::Checkpoint {
        &stage.entries
    } else {
        &stage.values
    }
}

/// Publishes an entry.
fn publish(
    stage: &FakeRun,
    keep: u32,
    name: &str,
    value: Result<FakeValue, String>,
) -> Result<(), Refusal> {
    let keep = Keep::from_number(keep).ok_or_else(|| {
        let message = format!("unknown place {keep} for values");
        Refusal::new(Status::UNSUPPORTED, message)
    })?;
    check_name("a published name", name).map_err(Refusal::invalid)?;
    if keep == Keep::Checkpoint && stage.point() != Some(Point::BeforeSaveCheckpoint) {
        let point = stage.point().map_or("creation", Point::name);
        let message = format!(
            "nothing can be added to a checkpoint at `{point}`; it can at before_save_checkpoint"
        );
        return Err(Refusal::new(Status::NOT_LEGAL_HERE, message));
    }
    let value = value.map_err(Refusal::invalid)?;
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
