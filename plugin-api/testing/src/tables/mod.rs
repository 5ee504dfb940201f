//! The host's function tables, answered from a [`FakeRun`]: a hook uses them exactly as in a run.

mod device;
mod plain;
mod ranks;
mod requests;
mod tensors;
mod threads;
mod values;
mod vectors;

use std::ffi::c_void;
use std::ptr;

use abi_stable::std_types::RString;

use super::stage::FakeRun;
use sconce_plugin_api::abi::{ABI_EPOCH, API_VERSION, ErrorAbi, HostRoot, Status, TextAbi};
use sconce_plugin_api::ext::{
    DeviceTable, LogTable, MetricsTable, PlanTable, RanksTable, RequestsTable, ResumeTable,
    RetainTable, RunTable, ScreenTable, TaskTable, TensorsTable, ThreadsTable, ValuesTable,
    VectorsTable,
};

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

unsafe extern "C" fn query(extension: TextAbi) -> *const c_void {
    // SAFETY: the plugin lends the text for the call.
    match unsafe { extension.read() }.unwrap_or_default() {
        DeviceTable::ID => ptr::from_ref(&device::TABLE).cast(),
        LogTable::ID => ptr::from_ref(&plain::LOG).cast(),
        MetricsTable::ID => ptr::from_ref(&plain::METRICS).cast(),
        PlanTable::ID => ptr::from_ref(&plain::PLAN).cast(),
        RanksTable::ID => ptr::from_ref(&ranks::TABLE).cast(),
        RequestsTable::ID => ptr::from_ref(&requests::TABLE).cast(),
        ResumeTable::ID => ptr::from_ref(&plain::RESUME).cast(),
        RetainTable::ID => ptr::from_ref(&tensors::RETAIN).cast(),
        RunTable::ID => ptr::from_ref(&plain::RUN).cast(),
        ScreenTable::ID => ptr::from_ref(&plain::SCREEN).cast(),
        TaskTable::ID => ptr::from_ref(&plain::TASK).cast(),
        TensorsTable::ID => ptr::from_ref(&tensors::TABLE).cast(),
        ThreadsTable::ID => ptr::from_ref(&threads::TABLE).cast(),
        ValuesTable::ID => ptr::from_ref(&values::TABLE).cast(),
        VectorsTable::ID => ptr::from_ref(&vectors::TABLE).cast(),
        _ => ptr::null(),
    }
}

/// Converts a context pointer to a reference to its stage.
///
/// # Safety
///
/// `context` must be null or come from [`FakeRun::context`] of a stage that is alive for `'a`.
unsafe fn stage<'a>(context: *const c_void) -> Option<&'a FakeRun> {
    // SAFETY: the caller guarantees a null pointer or a stage that is alive for `'a`.
    unsafe { context.cast::<FakeRun>().as_ref() }
}

/// Writes an error message and returns the status.
///
/// # Safety
///
/// `error` must be null or point to an [`ErrorAbi`] that nothing else accesses meanwhile.
unsafe fn refuse(error: *mut ErrorAbi, status: Status, message: &str) -> u32 {
    // SAFETY: the caller guarantees that `error` is null or exclusively ours.
    if let Some(error) = unsafe { error.as_mut() } {
        error.message = RString::from(message);
    }
    status.0
}
