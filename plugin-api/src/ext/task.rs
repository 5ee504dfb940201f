//! `sconce.task/1`: constants of the task, and the optimizer's parameter groups.

use super::extension;
use crate::abi::TextAbi;

/// Constants of the task, and the optimizer's parameter groups.
#[extension("sconce.task/1")]
pub trait Task {
    /// The facts that do not change during the run, as a JSON object ([`TaskFacts`](crate::TaskFacts)), valid until the
    /// end of the run. Not found at a hook's creation.
    fn facts(&self) -> Option<&str>;

    /// Number of the optimizer's parameter groups.
    #[ahead]
    fn group_count(&self) -> usize;

    /// The parameter group at an index.
    #[ahead]
    fn group(&self, index: usize) -> Option<GroupAbi>;
}

/// A parameter group. Frozen.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GroupAbi {
    /// Name; valid until the end of the run.
    pub name: TextAbi,
    /// Its learning rate.
    pub learning_rate: f64,
    /// Its weight decay.
    pub weight_decay: f64,
}
