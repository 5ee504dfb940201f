//! Resolves variable names in a configuration to batch tensors or values published by hooks.

use sconce_plugin_api::moment::HasBatch;
use sconce_plugin_api::prelude::*;

use crate::numbers;

/// Source of a variable's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A tensor of the batch: `inputs`, `targets`, `outputs`, `loss`, or one named by the task.
    Batch,
    /// Indices of the batch's samples in their data set.
    Indices,
    /// A tensor that a hook publishes.
    Published,
    /// A number or list of numbers that a hook publishes.
    Value,
    /// A metric that a hook publishes at each iteration.
    Metric,
}

/// A number or a list of numbers, as hooks publish them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    One(f64),
    Many(Vec<f64>),
}

/// A variable identified by name.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// Set from the first batch on.
    source: Option<Source>,
}

impl Variable {
    pub(crate) fn new(name: impl Into<String>) -> Variable {
        Variable {
            name: name.into(),
            source: None,
        }
    }

    /// Returns where the variable is found; the first result is kept for the run.
    ///
    /// # Errors
    ///
    /// If it is not found; the error lists the batch's variables.
    #[track_caller]
    pub(crate) fn source(&mut self, task: &At<'_, impl HasBatch>) -> Result<Source> {
        if let Some(source) = self.source {
            return Ok(source);
        }
        let name = &self.name;
        let found = if name == "indices" {
            Source::Indices
        } else if task.variables().any(|tensor| tensor.name() == name) {
            Source::Batch
        } else if task.tensors(Collection::Published).named(name).is_ok() {
            Source::Published
        } else if task.published::<Value>(name).ok().flatten().is_some() {
            Source::Value
        } else if task.metric(name).is_some() {
            Source::Metric
        } else {
            return Err(HookError::new(format_args!(
                "there is no variable `{name}`: the batch has {}, and no hook publishes a tensor, \
                 numbers or a metric of that name",
                known(task)
            )));
        };
        self.source = Some(found);
        Ok(found)
    }

    /// Returns the variable as a tensor, if it is one.
    #[track_caller]
    pub(crate) fn tensor<'task>(
        &mut self,
        task: &'task At<'_, impl HasBatch>,
    ) -> Result<Option<Tensor<'task>>> {
        match self.source(task)? {
            Source::Batch => task.variable(&self.name).map(Some),
            Source::Indices => task.sample_indices().map(Some),
            Source::Published => task
                .tensors(Collection::Published)
                .named(&self.name)
                .map(Some),
            Source::Value | Source::Metric => Ok(None),
        }
    }

    /// Reads its values into `into`, replacing the contents.
    #[track_caller]
    pub(crate) fn read(&mut self, task: &At<'_, impl HasBatch>, into: &mut Vec<f64>) -> Result<()> {
        into.clear();
        if let Some(tensor) = self.tensor(task)? {
            return numbers::add(&tensor, into);
        }
        if self.source == Some(Source::Metric) {
            into.extend(task.metric(&self.name));
            return Ok(());
        }
        match task.published(&self.name)? {
            Some(Value::One(number)) => into.push(number),
            Some(Value::Many(numbers)) => into.extend(numbers),
            None => {}
        }
        Ok(())
    }
}

fn known(task: &At<'_, impl HasBatch>) -> String {
    let names: Vec<String> = task
        .variables()
        .map(|tensor| format!("`{}`", tensor.name()))
        .collect();
    names.join(", ")
}

/// Declares what of the loop a hook reads that watches variables of these names: beside them the loss, which tells whether a
/// batch was skipped, and what ranks exchange.
pub(crate) fn declare<'n>(
    setup: &Setup<'_>,
    names: impl IntoIterator<Item = &'n str>,
) -> Result<()> {
    let mut reads = vec!["batch", "loss", "ranks"];
    reads.extend(names.into_iter().filter_map(|name| match name {
        "inputs" => Some("inputs"),
        "targets" => Some("targets"),
        "outputs" => Some("outputs"),
        "indices" => Some("sample_indices"),
        _ => None,
    }));
    setup.reads(&reads)
}

/// Rejects an empty list of names or one with duplicates.
#[track_caller]
pub(crate) fn check(option: &str, names: &[String]) -> Result<()> {
    if names.is_empty() {
        bail!("`{option}` names nothing");
    }
    for (index, name) in names.iter().enumerate() {
        if names.iter().take(index).any(|earlier| earlier == name) {
            bail!("`{option}` names `{name}` twice");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_names_are_checked() {
        let names = |names: &[&str]| {
            check(
                "variables",
                &names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>(),
            )
        };
        assert!(names(&["a", "b"]).is_ok());
        assert!(names(&[]).is_err());
        let error = names(&["a", "b", "a"]).expect_err("twice");
        assert_eq!(error.message(), "`variables` names `a` twice");
    }
}
