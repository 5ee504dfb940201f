//! `sconce.task/1`: what is trained, and the optimizer's parameter groups.

use std::ffi::c_void;

use super::Extension;
use crate::abi::TextAbi;

/// The table of `sconce.task/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct TaskTable {
    /// What does not change during the run, as a JSON object
    /// ([`TaskFacts`](crate::TaskFacts)); the text lives to the end of the run. Not there at a
    /// hook's creation.
    pub facts: unsafe extern "C" fn(context: *const c_void, json: *mut TextAbi) -> u32,
    /// How many parameter groups the optimizer has.
    pub group_count: unsafe extern "C" fn(context: *const c_void) -> usize,
    /// Name and learning rate of the group at `index`; the name lives to the end of the run.
    pub group: unsafe extern "C" fn(
        context: *const c_void,
        index: usize,
        name: *mut TextAbi,
        learning_rate: *mut f64,
    ) -> u32,
}

// SAFETY: this is the table of that identifier.
unsafe impl Extension for TaskTable {
    const ID: &'static str = "sconce.task/1";
}

impl TaskTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
