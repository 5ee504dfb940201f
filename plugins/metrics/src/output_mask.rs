//! The `output-mask` hook: keeps a model from predicting classes that do not occur in an evaluation's data.
//!
//! `{"hook": "output-mask", "config": {"present": ["cat", "dog"]}}`

use std::collections::BTreeSet;
use std::fmt;

use sconce_plugin_api::prelude::*;

use crate::numbers;
use crate::phases::{self, PhaseName};

/// Which classes are masked, and when.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Classes that occur in the data, by name or number; all others are masked. Default (null): see
    /// `absent`.
    present: Option<Vec<Class>>,
    /// Classes that are masked. Default (null), if `present` is null too: those that are the target of no
    /// validation sample; the first validation is then not masked, and the mask applies from the next pass
    /// on.
    absent: Option<Vec<Class>>,
    /// Phases in which outputs are masked. Default `val` and `test`.
    phases: Vec<PhaseName>,
    /// Value of the masked outputs. Default (null): negative infinity, a probability of 0.
    value: Option<f64>,
    /// How a sample with a masked target, whose loss is infinite, is handled. Default `fail`.
    masked_target: Otherwise,
}

/// A class in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Class {
    /// By number, from 0.
    Number(usize),
    /// By name.
    Name(String),
}

/// How a masked target is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Otherwise {
    /// The run fails.
    Fail,
    /// A warning is printed once.
    Warn,
    /// It is ignored.
    Ignore,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            present: None,
            absent: None,
            phases: vec![PhaseName::Val, PhaseName::Test],
            value: None,
            masked_target: Otherwise::Fail,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::Number(number) => write!(f, "{number}"),
            Class::Name(name) => f.write_str(name),
        }
    }
}

impl Class {
    /// Returns the class's number.
    fn number(&self, option: &str, names: &[String]) -> Result<usize> {
        let found = match self {
            Class::Number(number) => Some(*number).filter(|number| *number < names.len()),
            Class::Name(own) => names.iter().position(|name| name == own),
        };
        found.ok_or_else(|| {
            let some: Vec<_> = names
                .iter()
                .take(20)
                .map(|name| format!("`{name}`"))
                .collect();
            let more = if names.len() > some.len() {
                ", …"
            } else {
                ""
            };
            HookError::new(format_args!(
                "`{option}` has `{self}`, which is not a class of the task; it has {}: {}{more}",
                names.len(),
                some.join(", ")
            ))
        })
    }
}

/// See the [module](self).
pub(crate) struct OutputMask {
    config: Config,
    /// Mask by class; `None` until it is known.
    masked: Option<Vec<bool>>,
    /// Targets seen so far, if the mask is derived from them.
    seen: BTreeSet<usize>,
    has_warned: bool,
    targets: Vec<f64>,
    /// Names of the task's classes, once the run has begun.
    classes: Option<Vec<String>>,
}

/// Returns the configured mask over a task's classes; `None` if none is configured.
fn masked_of(config: &Config, names: &[String]) -> Result<Option<Vec<bool>>> {
    if names.is_empty() {
        bail!("the task has no classes whose outputs could be masked");
    }
    mask(config, names)
}

fn mask(config: &Config, names: &[String]) -> Result<Option<Vec<bool>>> {
    let (option, classes, masked) = match (&config.present, &config.absent) {
        (Some(present), None) => ("present", present, false),
        (None, Some(absent)) => ("absent", absent, true),
        _ => return Ok(None),
    };
    let mut mask = vec![!masked; names.len()];
    for class in classes {
        let number = class.number(option, names)?;
        if let Some(place) = mask.get_mut(number) {
            *place = masked;
        }
    }
    if mask.iter().all(|masked| *masked) {
        bail!("`{option}` leaves no class that could be predicted");
    }
    Ok(Some(mask))
}

impl OutputMask {
    fn learns(&self) -> bool {
        self.config.present.is_none() && self.config.absent.is_none()
    }

    /// Looks for a masked target and handles it.
    fn look(&mut self, task: &TaskView<'_>, masked: &[bool]) -> Result<()> {
        let is_silent = match self.config.masked_target {
            Otherwise::Ignore => true,
            Otherwise::Warn => self.has_warned,
            Otherwise::Fail => false,
        };
        let is_masked =
            |target: &&f64| **target >= 0.0 && masked.get(**target as usize) == Some(&true);
        let Some(target) = self.targets.iter().find(is_masked).filter(|_| !is_silent) else {
            return Ok(());
        };
        let message = format!(
            "a sample of the phase `{}` is of the class {target}, which is masked: its loss is infinite \
             and its prediction always wrong",
            task.phase()
        );
        if self.config.masked_target == Otherwise::Fail {
            bail!("{message}; say what `masked_target` means");
        }
        task.warn(message);
        self.has_warned = true;
        Ok(())
    }
}

/// Overwrites the masked columns of (…, classes).
fn write<T: Element>(outputs: &mut TensorMut<'_>, masked: &[bool], value: T) -> Result<()> {
    for row in outputs.as_mut_slice::<T>()?.chunks_mut(masked.len().max(1)) {
        for (output, _) in row.iter_mut().zip(masked).filter(|(_, masked)| **masked) {
            *output = value;
        }
    }
    Ok(())
}

#[hook(
    name = "output-mask",
    about = "Keeps the model from predicting classes that the data of an evaluation has not.",
    priority = HIGHER,
    ranks = "all",
    state = [masked, seen, has_warned]
)]
impl Hook for OutputMask {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        if config.present.is_some() && config.absent.is_some() {
            bail!("only one of `present` and `absent` says which classes are masked");
        }
        if let Some(plan) = setup.plan()? {
            masked_of(&config, &plan.classes)?;
        }
        Ok(OutputMask {
            config,
            masked: None,
            seen: BTreeSet::new(),
            has_warned: false,
            targets: Vec::new(),
            classes: None,
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        let names = task.facts()?.classes;
        self.masked = masked_of(&self.config, &names)?;
        self.classes = Some(names);
        Ok(())
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        let is_learning = self.learns() && task.phase() == Phase::Val;
        let is_masked = phases::has(&self.config.phases, task.phase());
        if !is_learning && (!is_masked || self.masked.is_none()) {
            return Ok(());
        }
        self.targets.clear();
        numbers::add(&task.targets()?, &mut self.targets)?;
        if is_learning {
            let classes = self.targets.iter().filter(|target| **target >= 0.0);
            self.seen.extend(classes.map(|target| *target as usize));
        }
        let Some(masked) = self.masked.take().filter(|_| is_masked) else {
            return Ok(());
        };
        let looked = self.look(task, &masked);
        let value = self.config.value.unwrap_or(f64::NEG_INFINITY);
        let written = looked.and_then(|()| {
            let mut outputs = task.outputs_mut()?;
            match outputs.view().shape().last() {
                Some(&classes) if classes as usize == masked.len() => {}
                _ => bail!(
                    "the outputs of the shape {:?} are not scores of {} classes",
                    outputs.view().shape(),
                    masked.len()
                ),
            }
            match outputs.view().dtype() {
                Some(DType::F64) => write(&mut outputs, &masked, value),
                _ => write(&mut outputs, &masked, value as f32),
            }
        });
        self.masked = Some(masked);
        written
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        if self.learns() && task.phase() == Phase::Val {
            let classes = task.facts()?.classes.len();
            self.masked = Some(
                (0..classes)
                    .map(|class| !self.seen.contains(&class))
                    .collect(),
            );
        }
        Ok(())
    }

    fn state_restored(&mut self) -> Result<()> {
        let Some(names) = &self.classes else {
            return Ok(());
        };
        let classes = names.len();
        let masks = self.masked.as_ref().map_or(classes, Vec::len);
        if masks != classes || self.seen.last().is_some_and(|class| *class >= classes) {
            bail!("the state's mask is of other classes than the {classes} of the task");
        }
        if !self.learns() {
            self.masked = mask(&self.config, names)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun, Seen};
    use serde_json::json;

    use super::*;

    fn config(text: &str) -> Config {
        serde_json::from_str(text).expect("a configuration")
    }

    #[test]
    fn masks_follow_from_names_and_numbers() {
        let names = ["cat", "dog", "owl"].map(str::to_owned);
        let found =
            |text: &str| mask(&config(text), &names).map_err(|error| error.message().to_owned());
        assert_eq!(found("{}"), Ok(None));
        let only_dog = Ok(Some(vec![true, false, true]));
        assert_eq!(found(r#"{"present": ["dog"]}"#), only_dog);
        assert_eq!(found(r#"{"absent": [0, "owl"]}"#), only_dog);
        let error = found(r#"{"absent": ["cow"]}"#).expect_err("no such class");
        assert!(
            error.contains("`cow`, which is not a class") && error.contains("`dog`"),
            "{error}"
        );
        assert!(
            found(r#"{"present": [3]}"#)
                .expect_err("no such class")
                .contains("`3`")
        );
        assert!(
            found(r#"{"present": []}"#)
                .expect_err("nothing is left")
                .contains("no class")
        );
    }

    /// Three classes, of which the validation has the first two.
    fn run() -> ScriptedRun {
        ScriptedRun::new()
            .classes(&["cat", "dog", "owl"])
            .outputs(|_batch| vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
            .targets(|_batch| vec![0, 1])
    }

    /// Phase, epoch and outputs of the masked batches.
    fn masked(seen: &Seen) -> Vec<(Phase, u64, &[f32])> {
        let changes = seen.changes().iter();
        changes
            .map(|change| (change.at.phase, change.at.epoch, &*change.after))
            .collect()
    }

    #[test]
    fn absent_classes_are_masked_in_evaluations_alone() -> std::result::Result<(), Failed> {
        let config = json!({"present": ["cat", 1], "value": -9.0});
        let seen = run().epochs(1).test(1).drive::<OutputMask>(config)?;
        let outputs: &[f32] = &[1.0, 2.0, -9.0, 4.0, 5.0, -9.0];
        assert_eq!(
            masked(&seen),
            [
                (Phase::Val, 1, outputs),
                (Phase::Val, 1, outputs),
                (Phase::Test, 1, outputs),
            ]
        );
        let config = json!({"absent": ["dog"]});
        let failed = run().drive::<OutputMask>(config).unwrap_err();
        assert_eq!(
            failed.message,
            "a sample of the phase `val` is of the class 1, which is masked: its loss is infinite and \
         its prediction always wrong; say what `masked_target` means"
        );
        let config = json!({"absent": ["dog"], "masked_target": "warn"});
        assert_eq!(run().drive::<OutputMask>(config)?.warnings().len(), 1);
        Ok(())
    }

    #[test]
    fn classes_that_the_first_validation_has_not_are_masked_from_the_second_on()
    -> std::result::Result<(), Failed> {
        let seen = run().epochs(2).drive::<OutputMask>(json!({}))?;
        let outputs: &[f32] = &[1.0, 2.0, f32::NEG_INFINITY, 4.0, 5.0, f32::NEG_INFINITY];
        assert_eq!(
            masked(&seen),
            [(Phase::Val, 2, outputs), (Phase::Val, 2, outputs)]
        );
        run().check_resume::<OutputMask>(json!({}))
    }
}
