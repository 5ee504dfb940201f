//! The table for tensors, lent in place.

use std::ffi::c_void;

use super::{refuse, stage};
use crate::fake::Retained;
use sconce_plugin_api::abi::{ErrorAbi, Status, TextAbi};
use sconce_plugin_api::ext::{Collection, RetainTable, TensorAbi, TensorsTable};

pub(super) static TABLE: TensorsTable = TensorsTable { count, at, find };

pub(super) static RETAIN: RetainTable = RetainTable { retain, release };

unsafe extern "C" fn count(context: *const c_void, collection: u32) -> usize {
    // SAFETY: the context is that of this call.
    let stage = unsafe { stage(context) };
    match (stage, Collection::from_number(collection)) {
        (Some(stage), Some(collection)) => stage.count(collection),
        _ => 0,
    }
}

unsafe extern "C" fn at(
    context: *const c_void,
    collection: u32,
    index: usize,
    writable: u32,
    tensor: *mut TensorAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is that of this call, for which tensor and error are borrowed.
    unsafe {
        let (Some(stage), Some(collection), Some(place)) = (
            stage(context),
            Collection::from_number(collection),
            tensor.as_mut(),
        ) else {
            return Status::INVALID.0;
        };
        if writable != 0 {
            if let Some(message) = stage.why_not_writable(collection, index) {
                return refuse(error, Status::NOT_LEGAL_HERE, &message);
            }
            stage.note(collection, index);
        }
        match stage.with(collection, index, |tensor| tensor.lend(writable != 0)) {
            Some(lent) => {
                *place = lent;
                Status::OK.0
            }
            None => Status::NOT_FOUND.0,
        }
    }
}

unsafe extern "C" fn find(
    context: *const c_void,
    collection: u32,
    name: TextAbi,
    index: *mut usize,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is that of this call, for which name, index and error are borrowed.
    unsafe {
        let (Some(stage), Some(collection), Some(name), Some(place)) = (
            stage(context),
            Collection::from_number(collection),
            name.read(),
            index.as_mut(),
        ) else {
            return Status::INVALID.0;
        };
        match stage.index(collection, name) {
            Ok(found) => {
                *place = found;
                Status::OK.0
            }
            Err(message) => refuse(error, Status::NOT_FOUND, &message),
        }
    }
}

unsafe extern "C" fn retain(
    context: *const c_void,
    collection: u32,
    index: usize,
    writable: u32,
    tensor: *mut TensorAbi,
    token: *mut *mut c_void,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the context is that of this call, for which tensor, token and error are borrowed.
    unsafe {
        let status = at(context, collection, index, writable, tensor, error);
        let (Some(stage), Some(collection), Some(token)) = (
            stage(context),
            Collection::from_number(collection),
            token.as_mut(),
        ) else {
            return Status::INVALID.0;
        };
        if status == Status::OK.0 {
            let retained = stage.with(collection, index, |tensor| tensor.retain());
            *token = retained.map_or(std::ptr::null_mut(), |retained| {
                Box::into_raw(Box::new(retained)).cast()
            });
        }
        status
    }
}

unsafe extern "C" fn release(token: *mut c_void) {
    if !token.is_null() {
        // SAFETY: the token comes from `retain`, whose caller releases it once.
        drop(unsafe { Box::from_raw(token.cast::<Retained>()) });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use serde_json::Value;

    use crate::{Failed, ScriptedRun};
    use sconce_plugin_api::ext::Collection;
    use sconce_plugin_api::prelude::*;
    use sconce_plugin_api::tensor::RetainedTensor;

    /// What the hook leaves behind.
    static KEPT: Mutex<Vec<RetainedTensor>> = Mutex::new(Vec::new());

    struct Keeper;

    #[hook(name = "keeper", about = "Keeps tensors.")]
    impl Hook for Keeper {
        fn new(_config: NoConfig, _setup: &Setup<'_>) -> Result<Self> {
            Ok(Keeper)
        }

        fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
            let mut kept = KEPT.lock().expect("nobody panics with it");
            assert_eq!(task.storage(Collection::Gradients).count(), 1);
            kept.push(task.storage(Collection::Parameters).retain("w")?);
            kept.extend(task.storage(Collection::Gradients).retain_at_mut(0)?);
            assert!(task.storage(Collection::Parameters).retain("v").is_err());
            Ok(())
        }

        fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
            let refused = task.storage(Collection::Gradients).retain_mut("w");
            refused.map(drop)
        }
    }

    #[test]
    fn retained_tensors_outlive_the_run_and_end_on_any_thread() {
        let run = ScriptedRun::new()
            .epochs(1)
            .iterations(1)
            .empty_model()
            .parameter("w", &[2], &[1.0, 2.0])
            .gradient("w", |_iteration| vec![0.5, 0.25]);
        let failed: Failed = run.drive::<Keeper>(Value::Null).unwrap_err();
        assert!(failed.message.contains("can't be changed at"), "{failed}");
        let kept = std::mem::take(&mut *KEPT.lock().expect("nobody panics with it"));
        let facts = |one: &RetainedTensor| (one.name().to_owned(), one.is_writable());
        let names: Vec<_> = kept.iter().map(facts).collect();
        assert_eq!(names, [("w".to_owned(), false), ("w".to_owned(), true)]);
        let on_another = thread::spawn(move || {
            let first = &kept[1];
            assert_eq!((first.shape(), first.strides()), (&[2][..], &[1][..]));
            // SAFETY: the memory is kept, has two `f32`, and nothing writes to it any more.
            unsafe { std::slice::from_raw_parts(first.data().cast::<f32>(), 2).to_vec() }
        });
        assert_eq!(on_another.join().expect("no panic"), [0.5, 0.25]);
    }
}
