//! What does not change during the run, and the optimizer's parameter groups.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::TaskView;
use crate::abi::TextAbi;
use crate::ext::TaskTable;
use crate::{Context, Error, Result};

/// What does not change during the run.
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
    /// Which of the processes that train together this is: 0 for now.
    pub rank: u64,
    /// How many processes train together: 1 for now.
    pub world_size: u64,
    /// The classes' names, in the order of their numbers; empty where there are no classes.
    pub classes: Vec<String>,
    /// The shape of a sample's input, without the batch.
    pub sample_shape: Vec<usize>,
    /// The task's metrics beside `loss`.
    pub metrics: Vec<String>,
    /// The modules that `module_forward` and `module_backward` know, in the order of the model.
    pub modules: Vec<ModuleFacts>,
    /// How many numbers the learned parameters have together.
    pub parameter_count: u64,
}

/// A module of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ModuleFacts {
    /// Its name, as `fc1`.
    pub name: String,
    /// What it is, as `linear`.
    pub kind: String,
}

impl<'task> TaskView<'task> {
    /// What does not change during the run: names, shapes, sizes. Parses a text: call once, at
    /// `before_run`.
    ///
    /// # Errors
    ///
    /// At a hook's creation, before there is a task.
    #[track_caller]
    pub fn facts(&self) -> Result<TaskFacts> {
        let table = Self::table(self.tables.task, TaskTable::ID)?;
        let mut json = TextAbi::EMPTY;
        // SAFETY: the context came with this view, and `json` is a place for one text, which the
        // host keeps to the end of the run.
        let text = unsafe {
            let status = (table.facts)(self.abi.context, &raw mut json);
            (status == 0).then(|| json.read()).flatten()
        };
        let text = text.ok_or_else(|| Error::new("the task is not known at this moment"))?;
        serde_json::from_str(text).context("the host's facts can't be read")
    }

    /// The optimizer's parameter groups and their learning rates, in the manifest's order behind
    /// `default`, the group of all other parameters.
    pub fn learning_rates(&self) -> impl Iterator<Item = (&'task str, f64)> {
        let (table, context) = (self.tables.task, self.abi.context);
        // SAFETY: the context came with this view.
        let count = table.map_or(0, |table| unsafe { (table.group_count)(context) });
        (0..count).filter_map(move |index| {
            let mut name = TextAbi::EMPTY;
            let mut rate = f64::NAN;
            // SAFETY: the context came with this view; both places are ours for the call, and the
            // host keeps the name to the end of the run.
            unsafe {
                let status = (table?.group)(context, index, &raw mut name, &raw mut rate);
                (status == 0).then(|| Some((name.read()?, rate))).flatten()
            }
        })
    }

    /// The learning rate of the parameter group of this name.
    pub fn learning_rate_of(&self, group: &str) -> Option<f64> {
        let mut groups = self.learning_rates();
        groups
            .find(|(name, _)| *name == group)
            .map(|(_, rate)| rate)
    }
}
