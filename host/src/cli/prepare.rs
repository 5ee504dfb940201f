//! What the commands on a trained model have in common: its task, with its weights.

use std::path::{Path, PathBuf};

use super::{ManifestArgs, output};
use crate::diagnostic::Diagnostic;
use crate::manifest::{self, Manifest};
use crate::session::{self, Failure, TaskBuilder};
use crate::task::Task;
use crate::weights;

/// The task of a manifest, without its hooks.
pub(super) fn task(
    arguments: &ManifestArgs,
    tasks: &dyn TaskBuilder,
) -> Result<(Manifest, Box<dyn Task>), Failure> {
    let manifest = manifest::load(&arguments.file, &arguments.overlay(), tasks.source());
    let manifest = manifest.map_err(Failure::usage)?;
    set_threads(manifest.threads);
    let data = session::read_data(&manifest)?;
    let task = tasks.build(&manifest, data)?;
    Ok((manifest, task))
}

/// Sets the task's parameters to those of a checkpoint or a file of weights.
pub(super) fn load(task: &dyn Task, checkpoint: &Path, strict: bool) -> Result<(), Failure> {
    let comparison = weights::load(checkpoint, task.parameters(), strict).map_err(|error| {
        let problem = Diagnostic::new(error.to_string());
        Failure::usage(vec![match error {
            weights::Error::Misfit { .. } => {
                problem.hint("is it of this manifest's model? `--lenient` takes what fits")
            }
            _ => problem,
        }])
    })?;
    if !comparison.is_whole() {
        let warning = format!("of the weights in `{}` {comparison}", checkpoint.display());
        output::diagnostics(&[Diagnostic::warning(warning)]);
    }
    Ok(())
}

/// A checkpoint to take weights from.
#[derive(Debug, clap::Args)]
pub(super) struct CheckpointArgs {
    /// The trained weights: a run's `weights.safetensors`, the directory of one of its
    /// checkpoints, or any safetensors file with the model's names.
    #[arg(long, value_name = "PATH")]
    pub(super) checkpoint: PathBuf,
    /// Takes the weights that fit and warns of the others.
    #[arg(long)]
    pub(super) lenient: bool,
}

/// Sets the threads of candle's pools, which read the environment at their first use.
pub(super) fn set_threads(threads: Option<usize>) {
    if let Some(threads) = threads {
        for name in ["RAYON_NUM_THREADS", "CANDLE_NUM_THREADS"] {
            // SAFETY: no thread of ours runs yet: the pools start with the first tensor operation,
            // and libraries opened so far have only been asked for their description.
            unsafe { std::env::set_var(name, threads.to_string()) };
        }
    }
}

/// An optimizer for a trainer that never steps.
pub(super) fn idle() -> crate::optim::Sgd {
    crate::optim::Sgd::new(0.0)
}
