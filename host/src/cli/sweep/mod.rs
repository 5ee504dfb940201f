//! `sconce sweep`: trains a manifest many times with different values, and looks for the best.
//!
//! **Parts**
//! - `document`: the file that describes a sweep. `space`: the values of its trials, drawn by a `distribution`.
//! - `plan`: the sweep with its trials, as all processes that work on it see it. `trial_directory`: a trial on disk.
//! - `rungs`: which trials go on. `workers`: the processes of trials on this machine; `slurm`: as jobs of a batch system.
//! - `results`: the table of all trials.
//!
//! **Flow.** Read the file → draw all trials, and check the manifest of each → until every trial that goes on has ended: start the
//! next one of the rung that is under way → show the table.
//!
//! **States.** There is no record of a sweep's state but its trials' directories, which are those of ordinary runs: a sweep whose
//! processes were killed goes on with the same command, and several processes can work on one.

mod distribution;
mod document;
mod plan;
mod results;
mod rungs;
mod slurm;
mod space;
mod trial_directory;
mod workers;

use std::path::PathBuf;

use clap::Args;

use crate::exit;
use crate::session::{StartFailure, TaskBuilder};
use plan::Sweep;
use slurm::Submitted;

/// Arguments of `sconce sweep`.
#[derive(Debug, Args)]
pub(in crate::cli) struct SweepArgs {
    /// Description of the sweep, a JSON file.
    file: PathBuf,
    /// Directory to search for plugins, as with `sconce run`.
    #[arg(long = "plugins", value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// Runs this trial alone, as far as it is to go now: for batch systems.
    #[arg(long, value_name = "NUMBER")]
    trial: Option<usize>,
    /// What had been submitted before this job of a batch system: for `sconce sweep` itself.
    #[arg(long, hide = true)]
    after: Option<Submitted>,
}

pub(in crate::cli) fn sweep(
    arguments: &SweepArgs,
    tasks: &dyn TaskBuilder,
) -> Result<u8, StartFailure> {
    let sweep = Sweep::open(&arguments.file, &arguments.plugins, tasks.source())?;
    let code = match (arguments.trial, &sweep.document.batch) {
        (Some(number), _) => return workers::run_one(&sweep, number),
        (None, Some(batch)) => slurm::submit(&sweep, batch, arguments.after)?,
        (None, None) => workers::run_all(&sweep)?,
    };
    if code == exit::DONE && sweep.progress().missing.is_empty() {
        results::show(&sweep);
    }
    Ok(code)
}
