//! Function tables that plugins call, one file per extension, and the root that leads to them.

mod c;
mod claims;
mod device;
mod gpu;
mod log;
mod loss;
mod metrics;
mod plan;
mod ranks;
mod requests;
mod resume;
mod retain;
mod run;
mod screen;
mod task;
mod tensors;
mod threads;
mod values;
mod vectors;

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use sconce_plugin_api::abi::{ABI_EPOCH, API_VERSION, HostRoot, TextAbi};
use sconce_plugin_api::ext::{
    CTable, ClaimsTable, DeviceTable, GpuTable, LogTable, LossTable, MetricsTable, PlanTable,
    RanksTable, RequestsTable, ResumeTable, RetainTable, RunTable, ScreenTable, TaskTable,
    TensorsTable, ThreadsTable, ValuesTable, VectorsTable,
};

use crate::version::HOST_VERSION;

/// Extensions of this host, for `sconce plugins` and for refusing plugins that require others.
pub const EXTENSIONS: [&str; 19] = [
    CTable::ID,
    ClaimsTable::ID,
    DeviceTable::ID,
    GpuTable::ID,
    LogTable::ID,
    LossTable::ID,
    MetricsTable::ID,
    PlanTable::ID,
    RanksTable::ID,
    RequestsTable::ID,
    ResumeTable::ID,
    RetainTable::ID,
    RunTable::ID,
    ScreenTable::ID,
    TaskTable::ID,
    TensorsTable::ID,
    ThreadsTable::ID,
    ValuesTable::ID,
    VectorsTable::ID,
];

pub use c::{NO_MESSAGE, TABLE as C_TABLE};
pub use loss::LossQueries;
pub use tensors::lent_before;
pub use values::readable;

/// Another root for the hooks of this process.
static OTHER_ROOT: OnceLock<Static<&'static HostRoot>> = OnceLock::new();

/// Makes hooks of this process receive another root: that of a hook's own process.
pub fn set_root(root: &'static HostRoot) {
    // Set once, at the start of the process.
    drop(OTHER_ROOT.set(Static(root)));
}

/// The root of this host.
static ROOT: Static<HostRoot> = Static(HostRoot {
    abi_epoch: ABI_EPOCH,
    version: TextAbi::new(HOST_VERSION),
    api_version: TextAbi::new(API_VERSION),
    query,
});

/// Returns the host's root, which every hook receives at its creation.
pub fn root() -> &'static HostRoot {
    if let Some(other) = OTHER_ROOT.get() {
        return other.0;
    }
    &ROOT.0
}

struct Static<T>(T);

// SAFETY: `T` is only ever `HostRoot`, or a reference to one, which is never written to and whose pointers lead to
// `'static` data.
unsafe impl<T> Sync for Static<T> {}

// SAFETY: as above.
unsafe impl<T> Send for Static<T> {}

unsafe extern "C" fn query(extension: TextAbi) -> *const c_void {
    // SAFETY: the plugin lends the text for the duration of the call.
    let Some(id) = (unsafe { extension.read() }) else {
        return ptr::null();
    };
    match id {
        CTable::ID => ptr::from_ref(&c::TABLE).cast(),
        ClaimsTable::ID => ptr::from_ref(&claims::TABLE).cast(),
        DeviceTable::ID => ptr::from_ref(&device::TABLE).cast(),
        GpuTable::ID => ptr::from_ref(&gpu::TABLE).cast(),
        LogTable::ID => ptr::from_ref(&log::TABLE).cast(),
        LossTable::ID => loss::queried(),
        MetricsTable::ID => ptr::from_ref(&metrics::TABLE).cast(),
        PlanTable::ID => ptr::from_ref(&plan::TABLE).cast(),
        RanksTable::ID => ptr::from_ref(&ranks::TABLE).cast(),
        RequestsTable::ID => ptr::from_ref(&requests::TABLE).cast(),
        ResumeTable::ID => ptr::from_ref(&resume::TABLE).cast(),
        RetainTable::ID => ptr::from_ref(&retain::TABLE).cast(),
        RunTable::ID => ptr::from_ref(&run::TABLE).cast(),
        ScreenTable::ID => ptr::from_ref(&screen::TABLE).cast(),
        TaskTable::ID => ptr::from_ref(&task::TABLE).cast(),
        TensorsTable::ID => ptr::from_ref(&tensors::TABLE).cast(),
        ThreadsTable::ID => ptr::from_ref(&threads::TABLE).cast(),
        ValuesTable::ID => ptr::from_ref(&values::TABLE).cast(),
        VectorsTable::ID => ptr::from_ref(&vectors::TABLE).cast(),
        _ => ptr::null(),
    }
}
