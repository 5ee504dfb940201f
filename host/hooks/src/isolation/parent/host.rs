//! The host's own tables, by which the parent answers.

use std::sync::OnceLock;

use sconce_plugin_api::abi::TextAbi;
use sconce_plugin_api::ext::{
    ClaimsTable, Extension, LogTable, MetricsTable, PlanTable, RanksTable, RequestsTable,
    ResumeTable, RunTable, ScreenTable, TaskTable, TensorsTable, ThreadsTable, ValuesTable,
};

use crate::bridge;

/// The tables that a hook uses.
pub(super) struct HostTables {
    pub(super) claims: &'static ClaimsTable,
    pub(super) log: &'static LogTable,
    pub(super) metrics: &'static MetricsTable,
    pub(super) plan: &'static PlanTable,
    pub(super) ranks: &'static RanksTable,
    pub(super) requests: &'static RequestsTable,
    pub(super) resume: &'static ResumeTable,
    pub(super) run: &'static RunTable,
    pub(super) screen: &'static ScreenTable,
    pub(super) task: &'static TaskTable,
    pub(super) tensors: &'static TensorsTable,
    pub(super) threads: &'static ThreadsTable,
    pub(super) values: &'static ValuesTable,
}

/// The host's tables; `None` if it lacks one.
pub(super) fn tables() -> Option<&'static HostTables> {
    static TABLES: OnceLock<Option<HostTables>> = OnceLock::new();
    let tables = TABLES.get_or_init(|| {
        Some(HostTables {
            claims: table()?,
            log: table()?,
            metrics: table()?,
            plan: table()?,
            ranks: table()?,
            requests: table()?,
            resume: table()?,
            run: table()?,
            screen: table()?,
            task: table()?,
            tensors: table()?,
            threads: table()?,
            values: table()?,
        })
    });
    tables.as_ref()
}

fn table<T: Extension>() -> Option<&'static T> {
    // SAFETY: the host answers with the table of this identifier, which lives as long as the process, or null.
    unsafe {
        (bridge::root().query)(TextAbi::new(T::ID))
            .cast::<T>()
            .as_ref()
    }
}
