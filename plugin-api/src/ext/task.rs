//! `sconce.task/1`: constants of the task, and the optimizer's parameter groups.

use std::ffi::c_void;

use super::Extension;
use crate::abi::TextAbi;

/// Function table of `sconce.task/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct TaskTable {
    /// Writes the facts that do not change during the run as a JSON object ([`TaskFacts`](crate::TaskFacts)).
    ///
    /// The text is valid until the end of the run. Not available at a hook's creation.
    pub facts: unsafe extern "C" fn(context: *const c_void, json: *mut TextAbi) -> u32,
    /// Number of the optimizer's parameter groups.
    pub group_count: unsafe extern "C" fn(context: *const c_void) -> usize,
    /// Name, learning rate and weight decay of the group at `index`; the name is valid until the end of the run.
    pub group: unsafe extern "C" fn(
        context: *const c_void,
        index: usize,
        name: *mut TextAbi,
        learning_rate: *mut f64,
        weight_decay: *mut f64,
    ) -> u32,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for TaskTable {
    const ID: &'static str = "sconce.task/1";
}

impl TaskTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
