//! Constants of the run, and the optimizer's parameter groups.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::TaskView;
use crate::abi::TextAbi;
use crate::ext::TaskTable;
use crate::{Context, HookError, Result};

/// Facts that do not change during the run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct TaskFacts {
    /// The run's name.
    pub run: String,
    /// The run's output directory, absolute.
    pub run_directory: PathBuf,
    /// The run's seed.
    pub seed: u64,
    /// Index of this process among the processes that train together, from 0.
    pub rank: u64,
    /// Number of processes that train together.
    pub world_size: u64,
    /// Class names in the order of their indices; empty if the task has no classes.
    pub classes: Vec<String>,
    /// Shape of one sample's input, without the batch dimension.
    pub sample_shape: Vec<usize>,
    /// Names of the task's metrics, without `loss`.
    pub metrics: Vec<String>,
    /// Modules for which `module_forward` and `module_backward` are called, in model order.
    pub modules: Vec<ModuleFacts>,
    /// Number of elements of all learned parameters together.
    pub parameter_count: u64,
}

/// A module of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ModuleFacts {
    /// Name, such as `fc1`.
    pub name: String,
    /// Kind of layer, such as `linear`.
    pub kind: String,
}

impl<'task> TaskView<'task> {
    /// Names, shapes and sizes that do not change during the run. Parses JSON: call once, at `before_run`.
    ///
    /// # Errors
    ///
    /// At a hook's creation, when there is no task yet.
    #[track_caller]
    pub fn facts(&self) -> Result<TaskFacts> {
        let table = Self::table(self.tables.task, TaskTable::ID)?;
        let mut json = TextAbi::EMPTY;
        // SAFETY: the context was provided with this view, and `json` has room for one text, which the host
        // keeps alive until the end of the run.
        let text = unsafe {
            let status = (table.facts)(self.abi.context, &raw mut json);
            (status == 0).then(|| json.read()).flatten()
        };
        let text = text.ok_or_else(|| HookError::new("the task is not known at this moment"))?;
        serde_json::from_str(text).context("the host's facts can't be read")
    }

    /// Names and learning rates of the optimizer's parameter groups.
    ///
    /// `default`, the group of all parameters in no other group, comes first; the others follow in the
    /// manifest's order.
    pub fn learning_rates(&self) -> impl Iterator<Item = (&'task str, f64)> {
        let (table, context) = (self.tables.task, self.abi.context);
        // SAFETY: the context was provided with this view.
        let count = table.map_or(0, |table| unsafe { (table.group_count)(context) });
        (0..count).filter_map(move |index| {
            let mut name = TextAbi::EMPTY;
            let mut rate = f64::NAN;
            // SAFETY: the context was provided with this view; both outputs are local and exclusively ours,
            // and the host keeps the name alive until the end of the run.
            unsafe {
                let status = (table?.group)(context, index, &raw mut name, &raw mut rate);
                (status == 0).then(|| Some((name.read()?, rate))).flatten()
            }
        })
    }

    /// Learning rate of the parameter group with this name; `None` if there is no such group.
    pub fn learning_rate_of(&self, group: &str) -> Option<f64> {
        let mut groups = self.learning_rates();
        groups
            .find(|(name, _)| *name == group)
            .map(|(_, rate)| rate)
    }
}
