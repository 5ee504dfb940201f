//! The host's functions, answered from a [`FakeRun`]: a hook uses them exactly as in a run.

mod facts;
mod forward;
mod requests;
mod tensors;
mod values;
mod vectors;

use std::ffi::c_void;
use std::ptr;

use sconce_plugin_api::abi::{ABI_EPOCH, API_VERSION, HostRoot, TextAbi};
use sconce_plugin_api::ext::{self, ClaimsTable, GpuTable, LossTable, Served};

use super::stage::FakeRun;

struct Root(HostRoot);

// SAFETY: the root is never written to, and its pointers point to constants.
unsafe impl Sync for Root {}

static ROOT: Root = Root(HostRoot {
    abi_epoch: ABI_EPOCH,
    version: TextAbi::new("the test kit"),
    api_version: TextAbi::new(API_VERSION),
    query,
});

/// The host root that hooks get at their creation.
pub(super) fn root() -> &'static HostRoot {
    &ROOT.0
}

// SAFETY: a context is null or leads to the run, which is alive during every call of a hook.
unsafe impl Served for FakeRun {
    unsafe fn of<'a>(context: *const c_void) -> Option<&'a FakeRun> {
        // SAFETY: guaranteed by the caller.
        unsafe { context.cast::<FakeRun>().as_ref() }
    }
}

unsafe extern "C" fn query(extension: TextAbi) -> *const c_void {
    // SAFETY: the plugin lends the text for the call.
    match unsafe { extension.read() } {
        // The run has one hook, no GPU, and its losses are known.
        None | Some(ClaimsTable::ID | GpuTable::ID | LossTable::ID) => ptr::null(),
        Some(id) => ext::table_of::<FakeRun>(id),
    }
}
