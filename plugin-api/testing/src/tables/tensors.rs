//! Tensors, lent in place.

use std::ffi::c_void;

use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{Collection, Refusal, Retain, RetainedAbi, TensorAbi, Tensors};

use super::super::stage::FakeRun;
use crate::fake::Retained;

fn known(collection: u32) -> Result<Collection, Refusal> {
    Collection::from_number(collection).ok_or_else(|| Refusal::invalid(""))
}

impl Tensors for FakeRun {
    fn count(&self, collection: u32) -> usize {
        known(collection).map_or(0, |collection| {
            self.uses.takes(collection);
            FakeRun::count(self, collection)
        })
    }

    fn at(&self, collection: u32, index: usize, writable: bool) -> Result<TensorAbi, Refusal> {
        let collection = known(collection)?;
        // Whoever takes one of the batch by its index has found it by its name.
        if collection != Collection::Batch {
            self.uses.takes(collection);
        }
        if writable {
            if let Some(message) = self.why_not_writable(collection, index) {
                return Err(Refusal::new(Status::NOT_LEGAL_HERE, message));
            }
            self.note(collection, index);
        }
        self.with(collection, index, |tensor| tensor.lend(writable))
            .ok_or(Refusal::NOT_FOUND)
    }

    fn find(&self, collection: u32, name: &str) -> Result<usize, Refusal> {
        let collection = known(collection)?;
        let found = self.index(collection, name);
        // What is not there has not been read: the hook may do without it.
        if found.is_ok() {
            self.uses.takes_one(collection, name);
        }
        found.map_err(|message| Refusal::new(Status::NOT_FOUND, message))
    }
}

impl Retain for FakeRun {
    fn retain(
        &self,
        collection: u32,
        index: usize,
        writable: bool,
    ) -> Result<RetainedAbi, Refusal> {
        let tensor = Tensors::at(self, collection, index, writable)?;
        let retained = self.with(known(collection)?, index, |tensor| tensor.retain());
        let token = retained.map_or(std::ptr::null_mut(), |retained| {
            Box::into_raw(Box::new(retained)).cast()
        });
        Ok(RetainedAbi { tensor, token })
    }

    unsafe fn release(token: *mut c_void) {
        if !token.is_null() {
            // SAFETY: the token comes from `retain`, whose caller releases it once.
            drop(unsafe { Box::from_raw(token.cast::<Retained>()) });
        }
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
