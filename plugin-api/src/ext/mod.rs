//! Extensions: tables of functions, each frozen under a name and a revision. All are the host's but
//! [`TransportTable`], which a plugin may have.
//!
//! There is one file per extension: its table, which crosses the boundary, followed by the types that authors
//! use. A plugin queries all tables when a hook is created. If the host lacks a table, the methods that need
//! it return an error, or the plugin is refused if its hook `requires` the extension.

mod asked;
mod c;
mod claims;
mod device;
mod gpu;
mod legal;
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
mod transport;
mod values;
mod vectors;

use std::ffi::c_void;

pub use asked::{Asked, check_ratio, serving_order};
pub use c::{C_ENTRY, CPlugin, CTable};
pub use claims::ClaimsTable;
pub use device::{DeviceAbi, DeviceTable};
pub use gpu::{GpuFiguresAbi, GpuSpanAbi, GpuTable};
pub use legal::{
    BEST_CHECKPOINT, KEPT_WEIGHTS, LATEST, RUN_TIMES, check_name, check_path, check_tag,
};
pub use log::{Level, LogTable};
pub use loss::LossTable;
pub use metrics::{MetricAbi, MetricsTable};
pub use plan::PlanTable;
pub use ranks::{
    RanksTable, why_no_gather_at, why_not_asked_on_first, why_not_changed_on_first,
    why_not_on_first,
};
pub use requests::{Request, RequestsTable};
pub use resume::ResumeTable;
pub use retain::RetainTable;
pub use run::RunTable;
pub use screen::ScreenTable;
pub use task::TaskTable;
pub use tensors::{Collection, TensorAbi, TensorsTable};
pub use threads::{Part, ThreadsTable};
pub use transport::TransportTable;
pub use values::{Keep, ValuesTable};
pub use vectors::{Change, Combination, LentVectors, Reduction, VectorsAbi, VectorsTable};

use crate::abi::{HostRoot, TextAbi};

/// Identifiers of the extensions that this version of the API can use.
pub const KNOWN: [&str; 20] = [
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
    TransportTable::ID,
    ValuesTable::ID,
    VectorsTable::ID,
];

/// A table of host functions, frozen under its identifier.
///
/// # Safety
///
/// The type must be the `repr(C)` table frozen under `ID`: every answer to a query for `ID` is a pointer to
/// exactly this layout.
pub unsafe trait Extension: 'static {
    /// Name and revision, such as `sconce.log/1`.
    const ID: &'static str;
}

/// The host's tables, queried once per hook.
#[derive(Clone, Copy)]
pub(crate) struct Tables {
    pub(crate) claims: Option<&'static ClaimsTable>,
    pub(crate) device: Option<&'static DeviceTable>,
    pub(crate) gpu: Option<&'static GpuTable>,
    pub(crate) log: Option<&'static LogTable>,
    pub(crate) loss: Option<&'static LossTable>,
    pub(crate) metrics: Option<&'static MetricsTable>,
    pub(crate) plan: Option<&'static PlanTable>,
    pub(crate) ranks: Option<&'static RanksTable>,
    pub(crate) requests: Option<&'static RequestsTable>,
    pub(crate) resume: Option<&'static ResumeTable>,
    pub(crate) retain: Option<&'static RetainTable>,
    pub(crate) run: Option<&'static RunTable>,
    pub(crate) screen: Option<&'static ScreenTable>,
    pub(crate) task: Option<&'static TaskTable>,
    pub(crate) tensors: Option<&'static TensorsTable>,
    pub(crate) threads: Option<&'static ThreadsTable>,
    pub(crate) values: Option<&'static ValuesTable>,
    pub(crate) vectors: Option<&'static VectorsTable>,
}

impl Tables {
    /// Queries the host for every table that this version knows.
    pub(crate) fn query(host: &HostRoot) -> Tables {
        Tables {
            claims: query(host),
            device: query(host),
            gpu: query(host),
            log: query(host),
            loss: query(host),
            metrics: query(host),
            plan: query(host),
            ranks: query(host),
            requests: query(host),
            resume: query(host),
            retain: query(host),
            run: query(host),
            screen: query(host),
            task: query(host),
            tensors: query(host),
            threads: query(host),
            values: query(host),
            vectors: query(host),
        }
    }
}

fn query<T: Extension>(host: &HostRoot) -> Option<&'static T> {
    // SAFETY: the identifier is a literal; the host answers with null or a table that lives as long as the
    // process and has the layout frozen under `ID` (the contract of `Extension`).
    unsafe {
        let table: *const c_void = (host.query)(TextAbi::new(T::ID));
        table.cast::<T>().as_ref()
    }
}
