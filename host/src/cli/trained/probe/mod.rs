//! `sconce probe`: how well simple classifiers do on the features of a trained model.
//!
//! `linear`: logistic regression, found by `minimise`. `neighbours`: the classes of the most similar training samples.

mod features;
mod linear;
mod minimise;
mod neighbours;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use candle_core::DType;
use clap::Args;
use sconce_ops::device::copy_to_host;
use sconce_plugin_api::Phase;
use serde_json::json;

use features::Features;
use linear::LinearProbe;
use neighbours::Neighbours;

use crate::cli::show::{number, output};
use crate::cli::trained::TrainedArgs;
use crate::cli::trained::eval::{DataPhase, phase_of};
use crate::cli::trained::model_run::{ModelRun, without_augmentation};
use crate::data::{self, Dataset, Splits, Targets};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::manifest::Manifest;
use crate::nn::Pass;
use crate::session::{StartFailure, TaskBuilder};
use crate::task::{Task, split_of};

/// Arguments of `sconce probe`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ProbeArgs {
    #[command(flatten)]
    trained: TrainedArgs,
    /// Module whose outputs are the features, by the name that `sconce summary` lists. Default: the model's own outputs.
    #[arg(long, value_name = "NAME")]
    module: Option<String>,
    /// Data to classify. Default: the test data, or the validation data if there is none.
    #[arg(long, value_enum)]
    phase: Option<DataPhase>,
    /// Number of nearest neighbours that vote.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    neighbours: u32,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn probe(
    arguments: &ProbeArgs,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    let (manifest, mut task) = arguments.trained.task(tasks)?;
    let phase = phase_of(arguments.phase, task.as_ref())?;
    let labelled = labelled(&manifest, task.as_ref())?;
    let [training, others] = [Phase::Train, phase].map(|phase| labelled.of(phase, task.as_ref()));
    let (Some(training), Some(others)) = (training, others) else {
        return Err(unlabelled());
    };
    let Targets::Class(classes) = training.targets() else {
        return Err(unlabelled());
    };
    let count = classes.len();
    let device = task.parameters().device().clone();
    let _precision = manifest.precision.begin(&device);
    let mut features =
        |data| features_of(task.as_mut(), &manifest, data, arguments.module.as_deref());
    let (training, others) = (features(training)?, features(others)?);
    let found = LinearProbe::fit(&training, count).classify(&others);
    let linear = others.accuracy(&found);
    let votes = arguments.neighbours as usize;
    let found = Neighbours::new(&training, count, votes).classify(&others);
    let neighbours = others.accuracy(&found);
    let phase = phase.name();
    if arguments.json {
        output::json_line(&json!({
            "phase": phase, "features": training.width, "linear": linear, "neighbours": neighbours,
        }));
    } else {
        output::line(&format!("{phase}/linear {}", number::exact(linear)));
        output::line(&format!("{phase}/neighbours {}", number::exact(neighbours)));
    }
    Ok(exit::DONE)
}

/// Samples with their classes.
enum Labelled {
    /// Those of the task.
    Task,
    /// Those of the task's data, whose classes it was trained without.
    Read(Splits),
}

impl Labelled {
    fn of(&self, phase: Phase, task: &dyn Task) -> Option<Arc<dyn Dataset>> {
        match self {
            Labelled::Task => task.data(phase),
            Labelled::Read(splits) => split_of(splits, phase),
        }
    }
}

fn labelled(manifest: &Manifest, task: &dyn Task) -> Result<Labelled, StartFailure> {
    let is_without = |data: Arc<dyn Dataset>| *data.targets() == Targets::None;
    if !task.data(Phase::Train).is_some_and(is_without) {
        return Ok(Labelled::Task);
    }
    let config = manifest
        .data
        .as_ref()
        .and_then(data::DataConfig::with_classes);
    let config = config.ok_or_else(unlabelled)?;
    let splits = data::load(&config, &manifest.base, manifest.seed);
    Ok(Labelled::Read(splits.map_err(|error| {
        let problem = format!("the classes of the images can't be read: {error}");
        StartFailure::usage(vec![Diagnostic::new(problem)])
    })?))
}

fn unlabelled() -> StartFailure {
    let problem = "a probe needs data with a class for each sample";
    let hint = "`sconce predict --module NAME --format npy` writes the features of any data";
    StartFailure::usage(vec![Diagnostic::new(problem).hint(hint)])
}

/// The features of all samples.
fn features_of(
    task: &mut dyn Task,
    manifest: &Manifest,
    data: Arc<dyn Dataset>,
    module: Option<&str>,
) -> Result<Features, StartFailure> {
    let train = &manifest.train;
    let mut features = Features {
        values: Vec::new(),
        width: 1,
        classes: Vec::with_capacity(data.len()),
    };
    let (modules, device) = (task.modules(), task.parameters().device().clone());
    let mut forward = |batch: &data::Batch, pass: &mut Pass<'_>| task.forward(batch, pass);
    let run = ModelRun {
        data: without_augmentation(data),
        modules,
        size: train.eval_batch_size.unwrap_or(train.batch_size).max(1),
        device,
        forward: &mut forward,
    };
    run.outputs(module, |batch, outputs| {
        let rows = copy_to_host(&outputs.detach())?.to_dtype(DType::F32)?;
        let rows = rows.reshape((batch.len(), ()))?;
        features.width = rows.dim(1)?.max(1);
        features
            .values
            .extend(rows.flatten_all()?.to_vec1::<f32>()?);
        features.classes.extend(batch.targets.to_vec1::<u32>()?);
        Ok(true)
    })?;
    Ok(features)
}
