//! The host's side of the boundary: the tables that plugins call.
//!
//! One file per extension, as in `sconce_plugin_api::ext`. Every function gets the context pointer
//! that the host handed out with a view or a setup; it leads to the run's [`Shared`] state, which
//! is alive for every call: hooks are created and called only while it is borrowed.

mod claims;
mod exposed;
mod log;
mod metrics;
mod plan;
mod requests;
mod resume;
mod run;
mod screen;
mod shared;
mod task;
mod tensors;
mod threads;
mod values;
mod witness;

use std::ffi::c_void;
use std::ptr;

use abi_stable::std_types::RString;
use sconce_plugin_api::abi::{ABI_EPOCH, API_VERSION, ErrorAbi, HostRoot, Status, TextAbi};
use sconce_plugin_api::ext::{
    ClaimsTable, LogTable, MetricsTable, PlanTable, RequestsTable, ResumeTable, RunTable,
    ScreenTable, TaskTable, TensorsTable, ThreadsTable, ValuesTable,
};

pub use exposed::{Exposed, ModuleTensors};
pub use requests::{Asked, Requests, Stop};
pub use shared::Shared;
pub use values::{Value, Values};
pub use witness::{Deed, Witness};

/// The extensions that this host has, for `sconce plugins` and for the refusal of plugins that
/// require others.
pub const EXTENSIONS: [&str; 12] = [
    ClaimsTable::ID,
    LogTable::ID,
    MetricsTable::ID,
    PlanTable::ID,
    RequestsTable::ID,
    ResumeTable::ID,
    RunTable::ID,
    ScreenTable::ID,
    TaskTable::ID,
    TensorsTable::ID,
    ThreadsTable::ID,
    ValuesTable::ID,
];

/// The host's name and version, as plugins see it.
pub const HOST_VERSION: &str = concat!("sconce ", env!("CARGO_PKG_VERSION"));

/// The host's root, which every hook gets at its creation.
pub fn root() -> &'static HostRoot {
    static ROOT: Static<HostRoot> = Static(HostRoot {
        abi_epoch: ABI_EPOCH,
        version: TextAbi::new(HOST_VERSION),
        api_version: TextAbi::new(API_VERSION),
        query,
    });
    &ROOT.0
}

struct Static<T>(T);

// SAFETY: the root is never written to, and its pointers lead to literals.
unsafe impl<T> Sync for Static<T> {}

unsafe extern "C" fn query(extension: TextAbi) -> *const c_void {
    // SAFETY: the plugin lends the text for the call.
    let Some(id) = (unsafe { extension.read() }) else {
        return ptr::null();
    };
    match id {
        ClaimsTable::ID => ptr::from_ref(&claims::TABLE).cast(),
        LogTable::ID => ptr::from_ref(&log::TABLE).cast(),
        MetricsTable::ID => ptr::from_ref(&metrics::TABLE).cast(),
        PlanTable::ID => ptr::from_ref(&plan::TABLE).cast(),
        RequestsTable::ID => ptr::from_ref(&requests::TABLE).cast(),
        ResumeTable::ID => ptr::from_ref(&resume::TABLE).cast(),
        RunTable::ID => ptr::from_ref(&run::TABLE).cast(),
        ScreenTable::ID => ptr::from_ref(&screen::TABLE).cast(),
        TaskTable::ID => ptr::from_ref(&task::TABLE).cast(),
        TensorsTable::ID => ptr::from_ref(&tensors::TABLE).cast(),
        ThreadsTable::ID => ptr::from_ref(&threads::TABLE).cast(),
        ValuesTable::ID => ptr::from_ref(&values::TABLE).cast(),
        _ => ptr::null(),
    }
}

/// The run's state behind a context pointer.
///
/// # Safety
///
/// `context` must be null or come from [`Shared::context`] of a state that is alive for `'a`.
unsafe fn shared<'a>(context: *const c_void) -> Option<&'a Shared<'a>> {
    // SAFETY: the caller's promise.
    unsafe { context.cast::<Shared<'a>>().as_ref() }
}

/// Answers with a failure: its status, and the message where the plugin wants to know it.
///
/// # Safety
///
/// `error` must be null or lead to an [`ErrorAbi`] that nothing else uses meanwhile.
#[cold]
unsafe fn refuse(error: *mut ErrorAbi, status: Status, message: &str) -> u32 {
    // SAFETY: the caller's promise.
    if let Some(error) = unsafe { error.as_mut() } {
        error.message = RString::from(message);
    }
    status.0
}
