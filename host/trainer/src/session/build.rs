//! Builds the task and the optimizer of a manifest.

use candle_core::DType;

use super::StartFailure;
use super::device::{check_device, open_device};
use super::memory::{ModelUse, check_memory};
use super::model_failure::{cant_be_built, inputs_of};
use sconce_plugin_api::Phase;

use crate::data::Splits;
use crate::diagnostic::Diagnostic;
use crate::manifest::{Manifest, TaskSource};
use crate::mentioned::mentioned;
use crate::optim::Optimizer;
use crate::parameters::Parameters;
use crate::task::{self, Limited, Supervised, Task};
use crate::weights::{self, WeightsConfig};

/// A program's way of creating its task.
pub trait TaskBuilder: Sync {
    /// The origin of the task.
    fn source(&self) -> TaskSource;

    /// Creates the task of a manifest. `data` is the loaded data that the manifest describes.
    ///
    /// # Errors
    ///
    /// If the task can't be created, with the reason.
    fn build(
        &self,
        manifest: &Manifest,
        data: Option<Splits>,
    ) -> Result<Box<dyn Task>, StartFailure>;
}

/// Builds the manifest's model over its data.
#[derive(Clone, Copy, Debug)]
pub struct FromManifest;

impl TaskBuilder for FromManifest {
    fn source(&self) -> TaskSource {
        TaskSource::Manifest
    }

    fn build(
        &self,
        manifest: &Manifest,
        data: Option<Splits>,
    ) -> Result<Box<dyn Task>, StartFailure> {
        Ok(Box::new(build_task(manifest, data)?))
    }
}

/// Builds the task with a function.
impl<F> TaskBuilder for F
where
    F: Fn(&Manifest, Option<Splits>) -> Result<Box<dyn Task>, StartFailure> + Sync,
{
    fn source(&self) -> TaskSource {
        TaskSource::Program
    }

    fn build(
        &self,
        manifest: &Manifest,
        data: Option<Splits>,
    ) -> Result<Box<dyn Task>, StartFailure> {
        self(manifest, data)
    }
}

/// Builds the program's task, limited to the part of its data that the manifest selects.
///
/// # Errors
///
/// If it can't be created.
pub fn task(
    tasks: &dyn TaskBuilder,
    manifest: &Manifest,
    data: Option<Splits>,
) -> Result<Box<dyn Task>, StartFailure> {
    let task = tasks.build(manifest, data)?;
    check_device(manifest, task.parameters().device())?;
    Ok(match manifest.train.data_limits() {
        Some(limits) => Box::new(Limited::new(task, limits)),
        None => task,
    })
}

/// Builds the manifest's model over its data.
///
/// # Errors
///
/// If there is no model or no data, or the model does not fit the data.
pub fn build_task(manifest: &Manifest, data: Option<Splits>) -> Result<Supervised, StartFailure> {
    let lacks = |key: &str| {
        let problem = format!("the manifest has no `{key}`");
        StartFailure::usage(vec![Diagnostic::new(problem).at(manifest.place(""))])
    };
    let data = data.ok_or_else(|| lacks("data"))?;
    let model = manifest.model.as_ref().ok_or_else(|| lacks("model"))?;
    check_memory(manifest, Some(&data), ModelUse::Weights)?;
    let device = open_device(manifest)?;
    let mut parameters = Parameters::new(manifest.seed, DType::F32, &device);
    let inputs = inputs_of(&data);
    let network = model
        .build(&mut parameters, &inputs, data.train.targets())
        .map_err(|error| cant_be_built(manifest, model, &inputs, &error))?;
    let (loss, metrics) = (manifest.loss.as_ref(), manifest.metrics.as_deref());
    Supervised::with(Box::new(network), parameters, data, loss, metrics).map_err(|error| {
        let key = match &error {
            task::SupervisedError::Loss(_)
            | task::SupervisedError::Data(_)
            | task::SupervisedError::NoProbability { .. } => "loss",
            task::SupervisedError::Metric(_) => "metrics",
        };
        let place = manifest.place(&mentioned(&manifest.resolved(), key, &error.to_string()));
        StartFailure::usage(vec![Diagnostic::new(error.to_string()).at(place)])
    })
}

/// Sets the task's parameters to the manifest's initial weights. Returns a warning if only some of them fit,
/// which `strict` may allow.
///
/// # Errors
///
/// If they can't be read or don't fit.
pub fn initial_weights(
    manifest: &Manifest,
    task: &dyn Task,
) -> Result<Option<Diagnostic>, StartFailure> {
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
        .map_err(|error| StartFailure::usage(vec![unfit(&error).at(place())]))?;
    if comparison.is_complete() {
        return Ok(None);
    }
    let warning = format!("of the weights in `{}` {comparison}", config.file.display());
    Ok(Some(Diagnostic::warning(warning).at(place())))
}

/// The error message for unusable weights, with hints about what to change in the manifest.
fn unfit(error: &weights::WeightsError) -> Diagnostic {
    let problem = Diagnostic::new(error.to_string());
    let (comparison, else_hint) = match error {
        weights::WeightsError::Misfit { comparison, .. } => (
            comparison,
            "`\"strict\": false` in `weights` takes what fits and leaves the rest as it is initialised",
        ),
        weights::WeightsError::NothingFits { comparison, .. } => (
            comparison,
            "`sconce summary` prints the model's names; `\"rename\": {\"module.\": \"\"}` in `weights` \
             takes a prefix away",
        ),
        _ => return problem,
    };
    match comparison.suggestion() {
        Some(suggestion) => problem
            .hint(format!("{suggestion}; it belongs under `weights`"))
            .hint(else_hint),
        None => problem.hint(else_hint),
    }
}

/// Checks that the training samples can be drawn as the manifest wants.
pub(super) fn check_sampling(manifest: &Manifest, task: &dyn Task) -> Result<(), StartFailure> {
    let Some(data) = task.data(Phase::Train) else {
        return Ok(());
    };
    (manifest.train.sampling.check(data.targets())).map_err(|error| {
        let place = manifest.place("train.sampling");
        StartFailure::usage(vec![Diagnostic::new(error.to_string()).at(place)])
    })
}

/// Builds the manifest's optimizer.
///
/// # Errors
///
/// If one of its numbers is out of range.
pub fn optimizer(
    manifest: &Manifest,
    parameters: &Parameters,
) -> Result<Box<dyn Optimizer>, StartFailure> {
    manifest.optimizer.build(parameters).map_err(|error| {
        let place = manifest.place(&mentioned(
            &manifest.resolved(),
            "optimizer",
            &error.to_string(),
        ));
        StartFailure::usage(vec![Diagnostic::new(error.to_string()).at(place)])
    })
}
