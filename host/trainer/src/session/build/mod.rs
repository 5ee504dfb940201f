//! Builds the task and the optimizer of a manifest.
//!
//! **Parts.** `adapt`: the adapters that a manifest asks for. `memory`: whether a model fits into memory, found from its shapes; `view_sizes`:
//! whether it fits views of several sizes. `model_failure`: why a model can't be built for the data.

mod adapt;
mod memory;
mod model_failure;
mod view_sizes;

use std::path::PathBuf;

use candle_core::DType;

pub use memory::{ModelUse, check_memory};

use super::StartFailure;
use super::device::{check_device, open_device};
use adapt::{adapter_plan, complete_adapters, unadapted};
use model_failure::{cant_be_built, inputs_of};
use sconce_plugin_api::Phase;
use view_sizes::take_all_views;

use crate::adapters;
use crate::data::Splits;
use crate::diagnostic::Diagnostic;
use crate::manifest::{Manifest, TaskSource};
use crate::mentioned::mentioned;
use crate::nn::Signal;
use crate::optim::Optimizer;
use crate::parameters::Parameters;
use crate::task::{self, OtherData, Supervised, Task};
use crate::weights::{self, Comparison, FamilyNames, WeightsConfig};

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
    if manifest.adapt.is_some() && task.parameters().adapters().is_none() {
        let problem =
            "a program's own task decides itself what is trained: `adapt` has no effect on it";
        let place = manifest.place("adapt");
        return Err(StartFailure::usage(vec![
            Diagnostic::new(problem).at(place),
        ]));
    }
    Ok(match manifest.train.data_limits() {
        Some(limits) => Box::new(OtherData::limited(task, limits)),
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
    if let Some(plan) = adapter_plan(manifest)? {
        parameters.adapt(plan);
    }
    let inputs = inputs_of(&data);
    let mut network = model
        .build(&mut parameters, &inputs, data.train.targets())
        .map_err(|error| cant_be_built(manifest, model, &inputs, &error))?;
    take_all_views(manifest, &data, &parameters, &mut network)?;
    adapters::check(&parameters).map_err(|error| unadapted(manifest, &error))?;
    let (loss, metrics) = (manifest.loss.as_ref(), manifest.metrics.as_deref());
    Supervised::with(Box::new(network), parameters, data, loss, metrics).map_err(|error| {
        let key = match &error {
            task::SupervisedError::Loss(_)
            | task::SupervisedError::Data(_)
            | task::SupervisedError::Views(_)
            | task::SupervisedError::NoProbability { .. }
            | task::SupervisedError::UnusedWeights => "loss",
            task::SupervisedError::MetricsOfViews(_) | task::SupervisedError::Metric(_) => {
                "metrics"
            }
        };
        let place = manifest.place(&mentioned(&manifest.resolved(), key, &error.to_string()));
        StartFailure::usage(vec![Diagnostic::new(error.to_string()).at(place)])
    })
}

/// What became of the manifest's initial weights.
#[derive(Debug)]
pub struct InitialWeights {
    /// The file or directory.
    pub file: PathBuf,
    /// Whose weights are in it.
    pub comparison: Comparison,
    /// A warning if only some of them fit, which `strict` may allow.
    pub warning: Option<Diagnostic>,
}

impl InitialWeights {
    /// The table for people, as lines.
    pub fn lines(&self) -> Vec<String> {
        let rows = self.comparison.rows().into_iter();
        let rows = rows.map(|[class, count, names]| {
            let dots = if names.is_empty() { "" } else { ": " };
            format!("{count} {class}{dots}{names}")
        });
        rows.collect()
    }
}

/// Sets the task's parameters to the manifest's initial weights.
///
/// # Errors
///
/// If they can't be read or don't fit.
pub fn initial_weights(
    manifest: &Manifest,
    task: &dyn Task,
) -> Result<Option<InitialWeights>, StartFailure> {
    let Some(config) = &manifest.weights else {
        return Ok(None);
    };
    let place = || manifest.place("weights");
    let WeightsConfig {
        file,
        strict,
        rename,
    } = config;
    let names = names_of(manifest, task);
    let comparison = weights::load_as(file, task.parameters(), *strict, rename, &names)
        .map_err(|error| StartFailure::usage(vec![unfit(&error).at(place())]))?;
    complete_adapters(manifest, task.parameters(), &comparison.new)?;
    let warning = (!comparison.is_complete()).then(|| {
        let warning = format!("of the weights in `{}` {comparison}", file.display());
        Diagnostic::warning(warning).at(place())
    });
    Ok(Some(InitialWeights {
        file: file.clone(),
        comparison,
        warning,
    }))
}

/// What names mean in files with weights of the manifest's model.
fn names_of(manifest: &Manifest, task: &dyn Task) -> FamilyNames {
    let (Some(model), Some(data)) = (&manifest.model, task.data(Phase::Train)) else {
        return FamilyNames::default();
    };
    let inputs = Signal::new(data.sample_shape(), data.inputs());
    let head = model.head(&inputs, data.targets());
    let mut names = model.family_names();
    names.head.extend(head.map(|head| format!("{head}.*")));
    names
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
