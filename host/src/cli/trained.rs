//! Arguments of `eval` and `predict`: a run's task, and which of its weights to use.

use std::path::{Path, PathBuf};

use super::{output, prepare, source};
use crate::checkpoint::{self, Store, TRAINED};
use crate::diagnostic::Diagnostic;
use crate::log::{Level, Log, MessageFormat, StderrLog};
use crate::manifest::{self, Manifest, Overlay};
use crate::session::{StartFailure, TaskBuilder};
use crate::task::Task;
use crate::weights;

/// A trained model: a manifest, and weights.
#[derive(Debug, clap::Args)]
pub(super) struct TrainedArgs {
    /// Run manifest, a JSON file; or the directory of a run, with its manifest and weights.
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
    /// Trained weights: a run's directory (its best checkpoint, else the final weights, else the last
    /// checkpoint), a checkpoint's directory, or any safetensors file with the model's names. Default: the
    /// run's directory, if given instead of a manifest.
    #[arg(long, value_name = "PATH")]
    checkpoint: Option<PathBuf>,
    /// Loads the weights that match and warns about the others.
    #[arg(long)]
    lenient: bool,
}

impl TrainedArgs {
    /// Builds the manifest's task and loads the requested weights into it.
    pub(super) fn task(
        &self,
        tasks: &dyn TaskBuilder,
    ) -> Result<(Manifest, Box<dyn Task>), StartFailure> {
        let (set, assignments) = self.set()?;
        let overlay = Overlay::new(&self.layers, &assignments);
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
            return Err(usage(
                problem,
                "give the run's directory, or its manifest and `--checkpoint`",
            ));
        }
        let mut manifest =
            manifest::load(&file, &overlay, tasks.source()).map_err(StartFailure::usage)?;
        if let Some(base) = source::read(&self.file).filter(|_| is_run) {
            manifest.base = base;
        }
        let (manifest, task) = prepare::build(manifest, tasks)?;
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
        self.load(task.as_ref(), place, set)?;
        Ok((manifest, task))
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
        let Chosen { path, why } = choose(place)?;
        let failed = |error: weights::WeightsError| {
            let problem = Diagnostic::new(error.to_string());
            StartFailure::usage(vec![match error {
                weights::WeightsError::Misfit { .. } => {
                    problem.hint("is it of this manifest's model? `--lenient` takes what fits")
                }
                weights::WeightsError::NothingFits { .. } => problem.hint("is it of this manifest's model?"),
                weights::WeightsError::Set { .. }
                | weights::WeightsError::Checkpoint(checkpoint::CheckpointError::Set { .. }) => {
                    problem.hint("`--set NAME` takes one of these; `--set PATH=VALUE` sets a value of the manifest")
                }
                _ => problem,
            }])
        };
        let found = weights::read_set(&path, set).map_err(failed)?;
        if why.is_some() || found.set != TRAINED {
            let why = why.map(|why| format!(", {why}")).unwrap_or_default();
            let text = format!(
                "weights: `{}`{why}; the set `{}`",
                path.display(),
                found.set
            );
            let log = StderrLog {
                level: Level::Info,
                form: MessageFormat::Text,
            };
            log.log(Level::Info, "sconce", &text);
        }
        let comparison = weights::set_all(&path, found.tensors, task.parameters(), !self.lenient)
            .map_err(failed)?;
        if !comparison.is_complete() {
            let warning = format!("of the weights in `{}` {comparison}", path.display());
            output::diagnostics(&[Diagnostic::warning(warning)]);
        }
        Ok(())
    }
}

/// Location of weights, and why it was chosen if the user did not name it.
struct Chosen {
    path: PathBuf,
    why: Option<String>,
}

/// Finds the weights at a path: the path itself, or for a run its best checkpoint, else the final weights,
/// else the last checkpoint.
fn choose(place: &Path) -> Result<Chosen, StartFailure> {
    let store = Store::of(place);
    let results = place.join(weights::RESULTS);
    let is_run =
        store.directory().is_dir() || results.is_file() || place.join("manifest.json").is_file();
    if !place.is_dir() || place.join("index.json").is_file() || !is_run {
        return Ok(Chosen {
            path: place.to_owned(),
            why: None,
        });
    }
    if let Some(best) = checkpoint::best(&store) {
        let value = best
            .value
            .map(|value| format!(" ({value:.4})"))
            .unwrap_or_default();
        return Ok(Chosen {
            path: best.path,
            why: Some(format!("the best by `{}`{value}", best.metric)),
        });
    }
    if results.is_file() && has_ended(place) {
        return Ok(Chosen {
            path: results,
            why: Some("what the run ended with, as it notes no best checkpoint".to_owned()),
        });
    }
    let last = store.latest().filter(|tag| store.tags().contains(tag));
    if let Some(tag) = last {
        Ok(Chosen {
            path: store.path_of(&tag),
            why: Some("the last checkpoint, as the run notes no best one".to_owned()),
        })
    } else {
        let problem = format!(
            "the run in `{}` has no weights: neither a checkpoint nor `{}`",
            place.display(),
            weights::RESULTS
        );
        Err(usage(
            problem,
            "train it, or name the weights by `--checkpoint`",
        ))
    }
}

/// Whether a run finished, so that the weights in its directory are the final ones.
fn has_ended(directory: &Path) -> bool {
    let record = fs_err::read(directory.join("run.json")).ok();
    let record: Option<serde_json::Value> =
        record.and_then(|text| serde_json::from_slice(&text).ok());
    let outcome = record
        .as_ref()
        .and_then(|record| record["outcome"].as_str());
    matches!(outcome, Some("completed" | "stopped"))
}

fn usage(problem: String, hint: &str) -> StartFailure {
    StartFailure::usage(vec![Diagnostic::new(problem).hint(hint)])
}
