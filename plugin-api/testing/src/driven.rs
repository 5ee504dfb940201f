//! The hook under test, used through its function table as by a host.

use std::ffi::c_void;
use std::ptr;

use abi_stable::std_types::RVec;

use super::failed::Failed;
use super::stage::FakeRun;
use super::tables::root;
use sconce_plugin_api::abi::{ErrorAbi, HookAbi, HookTable, SetupAbi, Status, TextAbi, ViewAbi};
use sconce_plugin_api::export::{Kind, create_from, keeping};

/// A created hook.
pub(super) struct Driven {
    instance: *mut c_void,
    table: &'static HookTable,
}

/// Arguments for creating a hook.
pub(super) struct Creation<'a> {
    pub(super) kind: &'a Kind,
    pub(super) config: &'a str,
    pub(super) name: &'a str,
    pub(super) run_directory: &'a str,
    pub(super) manifest: &'a str,
    pub(super) seed: u64,
}

impl Driven {
    pub(super) fn create(creation: &Creation<'_>, stage: &FakeRun) -> Result<Driven, Failed> {
        let setup = SetupAbi {
            host: root(),
            context: stage.context(),
            name: TextAbi::new(creation.name),
            run_directory: TextAbi::new(creation.run_directory),
            manifest: TextAbi::new(creation.manifest),
            seed: creation.seed,
        };
        let mut abi = HookAbi {
            instance: ptr::null_mut(),
            table: ptr::null(),
        };
        let mut error = ErrorAbi::new();
        // SAFETY: all pointers are to local values that live for the call.
        let status = keeping(|| unsafe {
            create_from(
                std::slice::from_ref(creation.kind),
                TextAbi::new(creation.kind.name()),
                TextAbi::new(creation.config),
                &raw const setup,
                &raw mut abi,
                &raw mut error,
            )
        });
        finish(status, &error, stage)?;
        // SAFETY: `create_from` has created a hook, whose table is a constant.
        let table = unsafe { abi.table.as_ref() };
        let table = table.ok_or_else(|| Failed::new(None, "no hook was made"))?;
        Ok(Driven {
            instance: abi.instance,
            table,
        })
    }

    pub(super) fn call(&mut self, stage: &FakeRun, view: &ViewAbi) -> Result<(), Failed> {
        let mut error = ErrorAbi::new();
        // SAFETY: the instance is alive; view and error are local and live for the call.
        let status = keeping(|| unsafe {
            (self.table.call)(self.instance, view.point, view, &raw mut error)
        });
        finish(status, &error, stage)
    }

    pub(super) fn save_state(&mut self, stage: &FakeRun) -> Result<Vec<u8>, Failed> {
        let mut error = ErrorAbi::new();
        let mut bytes = RVec::new();
        // SAFETY: the instance is alive; state and error are local and live for the call.
        let status = keeping(|| unsafe {
            (self.table.save_state)(self.instance, &raw mut bytes, &raw mut error)
        });
        finish(status, &error, stage)?;
        Ok(bytes.into_vec())
    }

    pub(super) fn load_state(&mut self, bytes: &[u8], stage: &FakeRun) -> Result<(), Failed> {
        let mut error = ErrorAbi::new();
        // SAFETY: the instance is alive; the bytes are borrowed for the call.
        let status = keeping(|| unsafe {
            (self.table.load_state)(self.instance, bytes.as_ptr(), bytes.len(), &raw mut error)
        });
        finish(status, &error, stage)
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        let mut error = ErrorAbi::new();
        // SAFETY: the instance is alive, and not used afterwards.
        keeping(|| unsafe { (self.table.drop)(self.instance, &raw mut error) });
    }
}

fn finish(status: u32, error: &ErrorAbi, stage: &FakeRun) -> Result<(), Failed> {
    if status == Status::OK.0 {
        return Ok(());
    }
    Err(Failed {
        source_location: error.place.to_string(),
        is_panic: status == Status::PANIC.0,
        ..Failed::new(stage.place.get(), &error.message)
    })
}
