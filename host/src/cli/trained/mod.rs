//! Trained models: `sconce eval` with `grown_table`, `sconce predict` with `predict_rows`, `prediction_format`, `model_run` and `npy`, `sconce probe`, `sconce generate` and `sconce export`. Here are the arguments of all: a run's
//! task, and which of its weights to use (`chosen_weights`). `merge`: `sconce merge`, of weights with adapters.

pub(in crate::cli) mod chosen_weights;
pub(in crate::cli) mod eval;
pub(in crate::cli) mod export;
pub(in crate::cli) mod generate;
mod grown_table;
pub(in crate::cli) mod merge;
mod model_run;
mod npy;
pub(in crate::cli) mod predict;
pub(in crate::cli) mod predict_rows;
pub(in crate::cli) mod prediction_format;
pub(in crate::cli) mod probe;

use std::path::{Path, PathBuf};

use crate::checkpoint::CheckpointError;
use crate::cli::prepare;
use crate::cli::prepare::Built;
use crate::cli::show::output;
use crate::cli::trained::chosen_weights::{ChosenWeights, model_directory, trained_on};
use crate::data::{self, DataFile};
use crate::diagnostic::Diagnostic;
use crate::manifest::{self, Manifest, Overlay, TaskSource};
use crate::model_directory::{ModelDirectoryError, SavedModel, TrainedModel};
use crate::record;
use crate::session::{self, StartFailure, TaskBuilder};
use crate::task::Task;
use crate::weights::{self, Comparison, WeightsError};

/// A trained model: a manifest, and weights.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct TrainedArgs {
    /// Directory of a run, with its manifest and weights; or a run manifest, a JSON file. For a file of its own (`--input`),
    /// also a run's `model` directory or a checkpoint.
    #[arg(value_name = "FILE|RUN")]
    file: PathBuf,
    /// Manifest merged over the first one and earlier layers: objects are merged, everything else is
    /// replaced. Relative paths in it start at the first manifest's directory.
    #[arg(long = "layer", value_name = "FILE")]
    layers: Vec<PathBuf>,
    /// `NAME` selects a set of weights: `parameters`, the trained ones, or averages by the name of their set,
    /// such as `ema`. Default: the set measured by the run's last evaluation. `PATH=VALUE` sets a value of the
    /// manifest, as in other commands.
    #[arg(long = "set", value_name = "NAME|PATH=VALUE")]
    set: Vec<String>,
    /// Has no effect, since no hooks are called. Every command that reads a manifest accepts it.
    #[arg(long = "plugins", value_name = "DIR", hide = true)]
    _plugins: Vec<PathBuf>,
    /// Trained weights: a run's directory (what it kept; if it has not ended, its best checkpoint, else the last
    /// one), a checkpoint's directory, or any safetensors file with the model's names. Default: the
    /// run's directory, if given instead of a manifest.
    #[arg(long, value_name = "PATH")]
    checkpoint: Option<PathBuf>,
    /// Loads the weights that match and warns about the others.
    #[arg(long)]
    lenient: bool,
    /// Goes on if the manifest's data are not those that the model was trained on.
    #[arg(long)]
    allow_changes: bool,
}

impl TrainedArgs {
    /// Whether data that are not those of the training are accepted.
    pub(in crate::cli) fn allows_changes(&self) -> bool {
        self.allow_changes
    }

    /// Opens the model alone, without the manifest's data: as it is in a run's directory or a checkpoint. None if the
    /// arguments name a manifest or change it, or what they name isn't complete in itself, for which there is a warning.
    pub(in crate::cli) fn model(
        &self,
        tasks: &dyn TaskBuilder,
    ) -> Result<Option<TrainedModel>, StartFailure> {
        let (set, assignments) = self.set()?;
        let is_changed = !self.layers.is_empty() || !assignments.is_empty();
        if is_changed || !self.file.is_dir() || tasks.source() == TaskSource::Program {
            return Ok(None);
        }
        let (chosen, directory, found) = self.saved()?;
        let path = chosen.path.clone();
        let Some(model) = found else {
            let warning = format!(
                "`{}` has weights alone: it was written by an earlier version, or by a program with a task of its own. \
                 Scaling, categories, classes and vocabulary are taken from the training data as they are now",
                path.display()
            );
            output::diagnostics(&[Diagnostic::warning(warning)]);
            return Ok(None);
        };
        prepare::set_threads(Some(model.facts().threads));
        let own = [
            directory.clone(),
            directory.join(weights::RESULTS),
            directory.with_file_name(weights::RESULTS),
        ];
        let weights = if own.contains(&path) && set.is_none() {
            model.weights(None).map_err(|error| failed(&error))?
        } else {
            weights::read_set(&path, set).map_err(|error| unusable(&error))?
        };
        chosen.log(&weights.set);
        let built = model.build(&path, weights, !self.lenient);
        let (model, comparison) = built.map_err(|error| failed(&error))?;
        warn_of(&comparison, &path);
        Ok(Some(model))
    }

    /// Finds the weights, the directory of the model that they are of, and that model if it is complete in itself.
    fn saved(&self) -> Result<(ChosenWeights, PathBuf, Option<SavedModel>), StartFailure> {
        let place = self.checkpoint.as_deref().unwrap_or(&self.file);
        let chosen = ChosenWeights::at(place)?;
        // Weights of another file are for the run's own model.
        let directory = match model_directory(&chosen.path) {
            Some(directory) => directory,
            None => model_directory(&self.file).unwrap_or_else(|| self.file.clone()),
        };
        let is_whole = SavedModel::is_in(&directory) || directory.join("index.json").is_file();
        let found = if is_whole {
            SavedModel::open(&directory).map_err(|error| failed(&error))?
        } else {
            None
        };
        Ok((chosen, directory, found))
    }

    /// Loads the manifest, that of the run if its directory is given.
    fn manifest(
        &self,
        tasks: &dyn TaskBuilder,
        assignments: &[String],
    ) -> Result<Manifest, StartFailure> {
        let overlay = Overlay::new(&self.layers, assignments);
        let is_run = self.file.is_dir();
        let file = if is_run {
            self.file.join("manifest.json")
        } else {
            self.file.clone()
        };
        if is_run && !file.is_file() {
            let problem = format!(
                "`{}` is not a run's directory: it has no `manifest.json`",
                self.file.display()
            );
            let hint = if SavedModel::is_in(&self.file) {
                "a model alone has no data of its own: give some by `--input FILE`"
            } else {
                "give the run's directory, or its manifest and `--checkpoint`"
            };
            return Err(usage(problem, hint));
        }
        let mut manifest =
            manifest::load(&file, &overlay, tasks.source()).map_err(StartFailure::usage)?;
        if let Some(base) = record::source::read(&self.file).filter(|_| is_run) {
            manifest.base = base;
        }
        Ok(manifest)
    }

    /// Builds the manifest's task and loads the requested weights into it.
    pub(in crate::cli) fn task(
        &self,
        tasks: &dyn TaskBuilder,
    ) -> Result<(Manifest, Box<dyn Task>), StartFailure> {
        let (set, assignments) = self.set()?;
        let is_run = self.file.is_dir();
        let manifest = self.manifest(tasks, &assignments)?;
        let Built {
            manifest,
            task,
            files,
        } = prepare::build(manifest, tasks)?;
        let place = match &self.checkpoint {
            Some(place) => place,
            None if is_run => &self.file,
            None => {
                let problem = "which weights? `--checkpoint` is missing".to_owned();
                return Err(usage(
                    problem,
                    "name a checkpoint, a file of weights or a run's directory; or give the run's directory in the manifest's place",
                ));
            }
        };
        let is_changed = !self.layers.is_empty() || !assignments.is_empty();
        self.compare_data(place, &files, is_run && !is_changed)?;
        self.load(task.as_ref(), place, set)?;
        Ok((manifest, task))
    }

    /// Compares the data with those that the weights were trained on. Others are an error if those of the run itself are
    /// meant, from which scaling, classes and the split were computed.
    fn compare_data(
        &self,
        place: &Path,
        data: &[DataFile],
        is_own: bool,
    ) -> Result<(), StartFailure> {
        let Some(was) = trained_on(place).filter(|was| !was.is_empty()) else {
            return Ok(());
        };
        let changes = data::file_changes(&was, data);
        if changes.is_empty() {
            return Ok(());
        }
        let told = session::bulleted(changes.iter());
        if is_own && !self.allow_changes {
            let problem = format!("the data are not those that the model was trained on:{told}");
            return Err(usage(
                problem,
                "scaling, classes and the split would be others than in the training: `sconce eval RUN --input FILE` reads a \
                 file as the model did, with `--phase` the same rows of a table or the new ones; `--allow-changes` goes on all \
                 the same",
            ));
        }
        let warning = format!(
            "the data are not those that the model was trained on; scaling, classes and the split are computed from \
             them:{told}"
        );
        output::diagnostics(&[Diagnostic::warning(warning)]);
        Ok(())
    }

    /// Splits `--set` into the name of a set, if given, and assignments to the manifest.
    fn set(&self) -> Result<(Option<&str>, Vec<String>), StartFailure> {
        let (assignments, names): (Vec<_>, Vec<_>) =
            self.set.iter().partition(|text| text.contains('='));
        let name = match names.as_slice() {
            [] => None,
            [name] => Some(name.as_str()),
            [one, other, ..] => {
                let problem = format!("`--set {one}` and `--set {other}` name two sets of weights");
                return Err(usage(
                    problem,
                    "name one; `--set PATH=VALUE` sets a value of the manifest",
                ));
            }
        };
        Ok((name, assignments.into_iter().cloned().collect()))
    }

    /// Loads the task's parameters, and logs which weights they are if the arguments don't make that
    /// clear.
    fn load(&self, task: &dyn Task, place: &Path, set: Option<&str>) -> Result<(), StartFailure> {
        let chosen = ChosenWeights::at(place)?;
        let path = &chosen.path;
        let found = weights::read_set(path, set).map_err(|error| unusable(&error))?;
        chosen.log(&found.set);
        let comparison = weights::set_all(path, found.tensors, task.parameters(), !self.lenient)
            .map_err(|error| unusable(&error))?;
        warn_of(&comparison, path);
        Ok(())
    }
}

/// The error message for weights that can't be used.
fn unusable(error: &WeightsError) -> StartFailure {
    let problem = Diagnostic::new(error.to_string());
    StartFailure::usage(vec![match error {
        WeightsError::Misfit { .. } => {
            problem.hint("is it of this manifest's model? `--lenient` takes what fits")
        }
        WeightsError::NothingFits { .. } => problem.hint("is it of this manifest's model?"),
        WeightsError::Set { .. } | WeightsError::Checkpoint(CheckpointError::Set { .. }) => problem
            .hint(
                "`--set NAME` takes one of these; `--set PATH=VALUE` sets a value of the manifest",
            ),
        _ => problem,
    }])
}

fn failed(error: &ModelDirectoryError) -> StartFailure {
    StartFailure::usage(vec![Diagnostic::new(error.to_string())])
}

fn warn_of(comparison: &Comparison, path: &Path) {
    if !comparison.is_complete() {
        let warning = format!("of the weights in `{}` {comparison}", path.display());
        output::diagnostics(&[Diagnostic::warning(warning)]);
    }
}

fn usage(problem: String, hint: &str) -> StartFailure {
    StartFailure::usage(vec![Diagnostic::new(problem).hint(hint)])
}
