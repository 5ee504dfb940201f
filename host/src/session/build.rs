//! The task and the optimizer of a manifest.

use candle_core::{DType, Device};

use super::Failure;
use super::mentioned::mentioned;
use crate::data::Splits;
use crate::diagnostic::Diagnostic;
use crate::manifest::{Manifest, TaskSource};
use crate::nn::{ModelError, Signal};
use crate::optim::Optimizer;
use crate::parameters::Parameters;
use crate::task::{self, Limited, Supervised, Task};
use crate::weights::{self, WeightsConfig};

/// How a program makes its task.
pub trait TaskBuilder {
    /// Where the task comes from.
    fn source(&self) -> TaskSource;

    /// The task of a manifest. `data` is what the manifest's `data` describes, read.
    ///
    /// # Errors
    ///
    /// What keeps the task from being made, in words for people.
    fn build(&self, manifest: &Manifest, data: Option<Splits>) -> Result<Box<dyn Task>, Failure>;
}

/// The task is the manifest's model over its data.
#[derive(Clone, Copy, Debug)]
pub struct FromManifest;

impl TaskBuilder for FromManifest {
    fn source(&self) -> TaskSource {
        TaskSource::Manifest
    }

    fn build(&self, manifest: &Manifest, data: Option<Splits>) -> Result<Box<dyn Task>, Failure> {
        Ok(Box::new(build_task(manifest, data)?))
    }
}

/// A function makes the task.
impl<F> TaskBuilder for F
where
    F: Fn(&Manifest, Option<Splits>) -> Result<Box<dyn Task>, Failure>,
{
    fn source(&self) -> TaskSource {
        TaskSource::Program
    }

    fn build(&self, manifest: &Manifest, data: Option<Splits>) -> Result<Box<dyn Task>, Failure> {
        self(manifest, data)
    }
}

/// The program's task, on as much of its data as the manifest says.
///
/// # Errors
///
/// What keeps it from being made.
pub fn task(
    tasks: &dyn TaskBuilder,
    manifest: &Manifest,
    data: Option<Splits>,
) -> Result<Box<dyn Task>, Failure> {
    let task = tasks.build(manifest, data)?;
    Ok(match manifest.train.data_limits() {
        Some(limits) => Box::new(Limited::new(task, limits)),
        None => task,
    })
}

/// The manifest's model over its data.
///
/// # Errors
///
/// Where there is no model or no data, or the model does not fit the data.
pub fn build_task(manifest: &Manifest, data: Option<Splits>) -> Result<Supervised, Failure> {
    let lacks = |key: &str| {
        let problem = format!("the manifest has no `{key}`");
        Failure::usage(vec![Diagnostic::new(problem).at(manifest.place(""))])
    };
    let data = data.ok_or_else(|| lacks("data"))?;
    let model = manifest.model.as_ref().ok_or_else(|| lacks("model"))?;
    let mut parameters = Parameters::new(manifest.seed, DType::F32, &Device::Cpu);
    let inputs = Signal {
        shape: data.train.sample_shape().to_vec(),
        content: data.train.inputs(),
    };
    let network = model
        .build(&mut parameters, &inputs, data.train.targets())
        .map_err(|error| {
            let path = match &error {
                ModelError::Layer(error) if model.has_layers_of_its_own() => {
                    format!("model.{}", error.path)
                }
                _ => mentioned(manifest, "model", &error.to_string()),
            };
            let problem = Diagnostic::new(error.to_string()).at(manifest.place(&path));
            Failure::usage(vec![match model.meant_for(&inputs) {
                Some(hint) => problem.hint(hint),
                None => problem,
            }])
        })?;
    let (loss, metrics) = (manifest.loss.as_ref(), manifest.metrics.as_deref());
    Supervised::with(Box::new(network), parameters, data, loss, metrics).map_err(|error| {
        let key = match &error {
            task::Error::Loss(_) => "loss",
            task::Error::Metric(_) => "metrics",
        };
        let place = manifest.place(&mentioned(manifest, key, &error.to_string()));
        Failure::usage(vec![Diagnostic::new(error.to_string()).at(place)])
    })
}

/// Sets the task's parameters to the weights that the manifest begins with; what of them does not
/// fit, where it may.
///
/// # Errors
///
/// Where they can't be read or don't fit.
pub fn initial_weights(
    manifest: &Manifest,
    task: &dyn Task,
) -> Result<Option<Diagnostic>, Failure> {
    let Some(config) = &manifest.weights else {
        return Ok(None);
    };
    let place = || manifest.place("weights");
    let WeightsConfig {
        file,
        strict,
        rename,
    } = config;
    let comparison = weights::load_renamed(file, task.parameters(), *strict, rename)
        .map_err(|error| Failure::usage(vec![unfit(&error).at(place())]))?;
    if comparison.is_whole() {
        return Ok(None);
    }
    let warning = format!("of the weights in `{}` {comparison}", config.file.display());
    Ok(Some(Diagnostic::warning(warning).at(place())))
}

/// What is wrong with the weights, and what the manifest could say instead.
fn unfit(error: &weights::Error) -> Diagnostic {
    let problem = Diagnostic::new(error.to_string());
    let (comparison, else_hint) = match error {
        weights::Error::Misfit { comparison, .. } => (
            comparison,
            "`\"strict\": false` in `weights` takes what fits and leaves the rest as it is initialised",
        ),
        weights::Error::NothingFits { comparison, .. } => (
            comparison,
            "`sconce summary` prints the model's names; `\"rename\": {\"module.\": \"\"}` in `weights` \
             takes a prefix away",
        ),
        _ => return problem,
    };
    match comparison.suggestion() {
        Some(suggestion) => problem
            .hint(format!("{suggestion}; it belongs into `weights`"))
            .hint(else_hint),
        None => problem.hint(else_hint),
    }
}

/// The manifest's optimizer.
///
/// # Errors
///
/// Where one of its numbers is out of range.
pub fn optimizer(
    manifest: &Manifest,
    parameters: &Parameters,
) -> Result<Box<dyn Optimizer>, Failure> {
    manifest.optimizer.build(parameters).map_err(|error| {
        let place = manifest.place(&mentioned(manifest, "optimizer", &error.to_string()));
        Failure::usage(vec![Diagnostic::new(error.to_string()).at(place)])
    })
}
