//! The `accumulate` hook: collects variables over a pass, for other hooks and as files.
//!
//! `{"hook": "accumulate", "config": {"variables": ["outputs"], "save": "npy"}}`

mod collected;
mod files;

use std::path::{Path, PathBuf};

use sconce_plugin_api::moment::HasBatch;
use sconce_plugin_api::prelude::*;

use crate::contributions::{Contributions, are_divided, writes_files};
use crate::passes::{self, Keeps, Pass};
use crate::phases::{self, ByPhase, PhaseName};
use crate::variables::{self, Source, Variable};
use crate::watched::{AllWatched, Watched};
use collected::Collected;

/// What is collected, and how it is used.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Variables to collect: tensors of the batch (`inputs`, `targets`, `outputs`, `loss`, and `indices`,
    /// the samples' indices in their data set), and tensors, numbers and metrics that other hooks publish.
    /// Their rows are concatenated to (samples, …); a scalar such as the loss gives one row per batch.
    /// Default: outputs and targets.
    variables: Vec<String>,
    /// Phases to collect. Default `val` and `test`.
    phases: Vec<PhaseName>,
    /// Interval of the collected batches of a pass, starting with the first; at least 1. Default 1.
    #[schemars(range(min = 1))]
    every: u64,
    /// Upper limit of rows per variable, at least 1; the first rows are kept. Default (null): all.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
    /// Whether the tensors are published for other hooks at the end of the pass, as
    /// `PREFIX/PHASE/VARIABLE`. Default true.
    publish: bool,
    /// How long they stay published. Default `epoch`.
    keep: KeepName,
    /// Prefix of their names. Default `accumulated`.
    prefix: String,
    /// Format of the files. Default (null): none are written.
    save: Option<Form>,
    /// Directory for the files, inside the run directory. Default `accumulated`.
    directory: PathBuf,
    /// Which passes' files are kept. Default `latest`.
    files: Keeps,
}

/// How long a tensor stays published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum KeepName {
    /// Until the next training epoch begins.
    Epoch,
    /// Until the end of the run; saved in checkpoints.
    Run,
}

/// File format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Form {
    /// One NumPy file per variable, such as `val-outputs.npy`; `bf16` is stored as `f32`.
    Npy,
    /// One file with all variables, such as `val.safetensors`.
    Safetensors,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            variables: ["outputs", "targets"].map(str::to_owned).to_vec(),
            phases: vec![PhaseName::Val, PhaseName::Test],
            every: 1,
            limit: None,
            publish: true,
            keep: KeepName::Epoch,
            prefix: "accumulated".to_owned(),
            save: None,
            directory: PathBuf::from("accumulated"),
            files: Keeps::Latest,
        }
    }
}

/// See the [module](self).
pub(crate) struct Accumulate {
    config: Config,
    directory: PathBuf,
    watched: AllWatched<(), Option<Collected>>,
    /// Scratch buffer for values of a batch that are not tensors.
    numbers: Vec<f64>,
    /// Rows of each batch, by variable, where batches are divided among ranks.
    contributions: Contributions<Vec<Option<Collected>>>,
}

impl Accumulate {
    fn collect(&mut self, task: &At<'_, impl HasBatch>) -> Result<()> {
        let limit = self.config.limit.unwrap_or(usize::MAX);
        for watched in &mut self.watched.0 {
            let Some(place) = watched.phases.of(task.phase()) else {
                continue;
            };
            let most = limit.saturating_sub(rows(place.as_ref()));
            if most > 0 {
                add_batch(place, &mut watched.variable, task, most, &mut self.numbers)?;
            }
        }
        Ok(())
    }

    /// Adds the batches of all ranks, once those of an update are done.
    fn exchange(&mut self, task: &At<'_, impl HasBatch>, is_left_out: bool) -> Result<()> {
        let own = (!is_left_out).then(|| self.of_batch(task)).transpose()?;
        let limit = self.config.limit.unwrap_or(usize::MAX);
        for batch in self.contributions.exchange(task, own)? {
            for (watched, more) in self.watched.0.iter_mut().zip(batch) {
                let (Some(place), Some(more)) = (watched.phases.of(task.phase()), more) else {
                    continue;
                };
                let most = limit.saturating_sub(rows(place.as_ref()));
                if most > 0 {
                    Collected::append(place, &watched.variable.name, more, most)?;
                }
            }
        }
        Ok(())
    }

    /// Rows of the current batch, by variable; of those only that are still wanted.
    fn of_batch(&mut self, task: &At<'_, impl HasBatch>) -> Result<Vec<Option<Collected>>> {
        let limit = self.config.limit.unwrap_or(usize::MAX);
        let mut all = Vec::with_capacity(self.watched.0.len());
        for watched in &mut self.watched.0 {
            let known = watched
                .phases
                .of(task.phase())
                .map_or(0, |place| rows(place.as_ref()));
            let most = limit.saturating_sub(known);
            let mut place = None;
            if most > 0 {
                add_batch(
                    &mut place,
                    &mut watched.variable,
                    task,
                    most,
                    &mut self.numbers,
                )?;
            }
            all.push(place);
        }
        Ok(all)
    }
}

fn rows(place: Option<&Collected>) -> usize {
    place.map_or(0, Collected::rows)
}

/// Adds at most `most` rows of the current batch.
fn add_batch(
    place: &mut Option<Collected>,
    variable: &mut Variable,
    task: &At<'_, impl HasBatch>,
    most: usize,
    numbers: &mut Vec<f64>,
) -> Result<()> {
    match variable.source(task)? {
        Source::Value | Source::Metric => {
            variable.read(task, numbers)?;
            Collected::add_numbers(place, &variable.name, numbers)
        }
        _ => match variable.tensor(task)? {
            Some(tensor) => Collected::add(place, &tensor, most),
            None => Ok(()),
        },
    }
}

/// Destination and format of a pass's files.
struct Files<'a> {
    directory: &'a Path,
    form: Option<Form>,
    name: String,
}

impl Files<'_> {
    fn write(&self, tensors: &[(&str, &Collected)]) -> Result<()> {
        let name = &self.name;
        match self.form {
            None => Ok(()),
            Some(Form::Safetensors) => {
                let path = path_inside(self.directory, format!("{name}.safetensors"))?;
                write_atomically(path, files::safetensors(tensors)?)
            }
            Some(Form::Npy) => tensors.iter().try_for_each(|(variable, collected)| {
                let file = format!("{name}-{}.npy", passes::plain(variable));
                write_atomically(path_inside(self.directory, file)?, files::npy(collected))
            }),
        }
    }
}

#[hook(
    name = "accumulate",
    about = "Collects variables over a pass: for other hooks, and as files of tensors.",
    ranks = "all",
    state = watched,
    reads = [batch, inputs, targets, outputs, sample_indices, ranks]
)]
impl Hook for Accumulate {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        variables::check("variables", &config.variables)?;
        if !config.publish && config.save.is_none() {
            bail!("with `publish` false and no `save` nothing becomes of what is collected");
        }
        variables::declare(setup, config.variables.iter().map(String::as_str))?;
        let watched = (config.variables.iter()).map(|name| Watched {
            variable: Variable::new(name),
            wanted: (),
            phases: ByPhase::default(),
        });
        Ok(Accumulate {
            directory: passes::directory(setup, &config.directory)?,
            watched: AllWatched(watched.collect()),
            config,
            numbers: Vec::new(),
            contributions: Contributions::default(),
        })
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let batch = task.batch().saturating_sub(1);
        // A batch skipped by a hook has no outputs.
        let is_left_out = !task.losses().is_known() || !batch.is_multiple_of(self.config.every);
        if !phases::has(&self.config.phases, task.phase()) {
            return Ok(());
        }
        if are_divided(task) {
            return self.exchange(task, is_left_out);
        }
        if is_left_out {
            return Ok(());
        }
        self.collect(task)
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        let phase = task.phase();
        if !phases::has(&self.config.phases, phase) {
            return Ok(());
        }
        let mut tensors = Vec::new();
        for watched in &mut self.watched.0 {
            let (name, place) = (watched.variable.name.as_str(), watched.phases.of(phase));
            let collected = place.and_then(|place| place.as_ref());
            tensors.extend(collected.map(|collected| (name, collected)));
        }
        if self.config.publish {
            let keep = match self.config.keep {
                KeepName::Epoch => Keep::Epoch,
                KeepName::Run => Keep::Run,
            };
            for (variable, collected) in &tensors {
                let name = format!("{}/{phase}/{variable}", self.config.prefix);
                collected.publish(task, &name, keep)?;
            }
        }
        let files = Files {
            directory: &self.directory,
            form: self.config.save,
            name: Pass::of(task).name(self.config.files),
        };
        if writes_files(task) {
            files.write(&tensors)?;
        }
        for watched in &mut self.watched.0 {
            if let Some(Some(collected)) = watched.phases.of(phase) {
                collected.clear();
            }
        }
        Ok(())
    }

    fn state_restored(&mut self) -> Result<()> {
        self.contributions = Contributions::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_of_a_pass_are_published_and_written() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new()
            .epochs(1)
            .outputs(|batch| vec![batch as f32, 1.0, 2.0, 3.0])
            .loss(|at| 1.0 + at.batch as f64);
        let config = json!({
            "variables": ["outputs", "loss"], "phases": ["val"], "limit": 3, "keep": "run",
            "save": "npy",
        });
        let seen = run.drive::<Accumulate>(config)?;
        let published = seen.published().iter();
        let published: Vec<_> = published
            .map(|one| (one.name.as_str(), one.keep, one.tensor.clone()))
            .collect();
        let outputs = vec![0.0, 1.0, 2.0, 3.0, 1.0, 1.0];
        assert_eq!(
            published,
            [
                (
                    "accumulated/val/outputs",
                    Keep::Run,
                    Some((vec![3, 2], outputs))
                ),
                (
                    "accumulated/val/loss",
                    Keep::Run,
                    Some((vec![2], vec![1.0, 2.0]))
                ),
            ]
        );
        let file = std::fs::read(seen.run_directory().join("accumulated/val-outputs.npy")).unwrap();
        assert_eq!(file.len(), 128 + 3 * 2 * 4);
        let failed = run.drive::<Accumulate>(json!({"publish": false}));
        assert_eq!(
            failed.unwrap_err().message,
            "with `publish` false and no `save` nothing becomes of what is collected"
        );
        run.epochs(2)
            .check_resume::<Accumulate>(json!({"phases": ["train"], "every": 2}))
    }

    #[test]
    fn rows_of_all_ranks_come_in_the_order_of_batches() -> std::result::Result<(), Failed> {
        // One update of four batches, two on each rank; the fifth row is the first half of the third batch.
        let outputs = |batch: u64| vec![batch as f32, 1.0, batch as f32, 2.0];
        let config =
            json!({"variables": ["outputs"], "phases": ["train"], "limit": 5, "save": "npy"});
        let run = ScriptedRun::new().epochs(1).accumulate(4).outputs(outputs);
        let alone = run.drive::<Accumulate>(config.clone())?;
        let script = |rank: usize| {
            let run = ScriptedRun::new().epochs(1).iterations(2).accumulate(2);
            run.outputs(move |round| outputs(2 * rank as u64 + round))
        };
        let all = ScriptedRun::drive_ranks::<Accumulate>(&config, 2, script)?;
        let rows = vec![0.0, 1.0, 0.0, 2.0, 1.0, 1.0, 1.0, 2.0, 2.0, 1.0];
        for seen in all.iter().chain([&alone]) {
            let tensor = seen.published()[0].tensor.clone();
            assert_eq!(tensor, Some((vec![5, 2], rows.clone())));
        }
        let file = "accumulated/train-outputs.npy";
        assert!(all[0].run_directory().join(file).exists());
        assert!(!all[1].run_directory().join(file).exists());
        Ok(())
    }
}
