//! Constants of the run, and the optimizer's parameter groups.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::TaskView;
use crate::ext::TaskClient;
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

/// A parameter group of the optimizer; see [`TaskView::groups`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ParameterGroup<'task> {
    /// Its name; `default` for that of all parameters in no other group.
    pub name: &'task str,
    /// Its learning rate.
    pub learning_rate: f64,
    /// Its weight decay.
    pub weight_decay: f64,
}

impl<'task> TaskView<'task> {
    /// Names, shapes and sizes that do not change during the run. Parses JSON: call once, at `before_run`.
    ///
    /// # Errors
    ///
    /// At a hook's creation, when there is no task yet.
    #[track_caller]
    pub fn facts(&self) -> Result<TaskFacts> {
        let text = self.host.task()?.facts();
        let text = text.ok_or_else(|| HookError::new("the task is not known at this moment"))?;
        serde_json::from_str(text).context("the host's facts can't be read")
    }

    /// The optimizer's parameter groups, with what is set for each.
    ///
    /// `default`, the group of all parameters in no other group, comes first; the others follow in the
    /// manifest's order.
    pub fn groups(&self) -> impl Iterator<Item = ParameterGroup<'task>> {
        let task = self.host.task().ok();
        let count = task.map_or(0, TaskClient::group_count);
        (0..count).filter_map(move |index| {
            let group = task?.group(index)?;
            Some(ParameterGroup {
                // SAFETY: the host keeps the name until the end of the run.
                name: unsafe { group.name.read() }?,
                learning_rate: group.learning_rate,
                weight_decay: group.weight_decay,
            })
        })
    }
}
